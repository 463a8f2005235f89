#include "runtime/analysis/bounds/time_bound.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/analysis/bounds/lanes.h"
#include "runtime/analysis/bounds/page_uses.h"
#include "runtime/analysis/bounds/page_visits.h"
#include "runtime/analysis/bounds/page_walks.h"

namespace sluice::analysis {
namespace {

double Over(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

std::vector<double> SecondsOf(const Schedule& lane) {
  std::vector<double> seconds;
  for (const ScheduleOp& op : lane.ops) seconds.push_back(op.seconds);
  return seconds;
}

/// The ops that are tried as ends of windows.
std::vector<std::uint32_t> ChooseNodes(const Schedule& lane, const TimeBoundOptions& options) {
  std::uint64_t accesses = 1;
  for (const ScheduleOp& op : lane.ops) accesses += op.accesses.size();
  const std::uint64_t ops = lane.ops.size();
  const std::uint64_t ends_max =
      std::min<std::uint64_t>(options.window_ends_max, options.window_accesses_max / accesses);
  const std::uint64_t count = std::clamp<std::uint64_t>(ends_max, 1, ops);
  std::vector<std::uint32_t> nodes;
  for (std::uint64_t i = 0; i < count; ++i) {
    nodes.push_back(static_cast<std::uint32_t>(i * ops / count));
  }
  return nodes;
}

/// A link as one lane sees it.
struct LaneLink {
  const PageUses& uses;
  const BoundLink& rates;
  double page_bytes = 0;
};

/// Two iterations move nothing, so no window within them does.
bool NothingMoves(const PageUses& uses) {
  InWalk in(uses);
  OutWalk out(uses);
  in.BeginAfter(0);
  out.BeginAfter(0);
  for (std::uint32_t step = 0; step < 2 * uses.op_count(); ++step) in.Step(), out.Step();
  return in.fetches() == 0 && out.copies() == 0;
}

/// Raises the gaps to what the link needs for its least fetches and copies out.
void RaiseGaps(const LaneLink& link, GapTable* gaps) {
  InWalk in(link.uses);
  OutWalk out(link.uses);
  for (std::size_t index = 0; index < gaps->node_count(); ++index) {
    in.BeginAfter(gaps->node(index));
    out.BeginAfter(gaps->node(index));
    const std::span<double> row = gaps->From(index);
    std::uint32_t steps = 0;
    for (std::size_t ahead = 1; ahead <= row.size(); ++ahead) {
      for (; steps < gaps->OpsAhead(index, ahead); ++steps) in.Step(), out.Step();
      const double seconds = LinkSeconds(link.rates,
                                         static_cast<double>(in.fetches()) * link.page_bytes,
                                         static_cast<double>(out.copies()) * link.page_bytes);
      row[ahead - 1] = std::max(row[ahead - 1], seconds);
    }
  }
}

void AddBytes(const BoundBytes& lane, BoundBytes* sum) {
  sum->in_bytes += lane.in_bytes;
  sum->out_bytes += lane.out_bytes;
  sum->least_in.resize(std::max(sum->least_in.size(), lane.least_in.size()), 0);
  for (std::size_t i = 0; i < lane.least_in.size(); ++i) sum->least_in[i] += lane.least_in[i];
}

/// The gaps of one lane over all links that move anything, and how many these are.
struct LaneGaps {
  std::optional<GapTable> gaps;
  int links = 0;
};

/// The bound of one schedule, link by link and lane by lane.
class TimeBounder {
 public:
  TimeBounder(const Schedule& schedule, const TimeBoundOptions& options)
      : schedule_(schedule), options_(options) {
    result_.rates = options.links;
    result_.links.resize(options.links.size());
  }

  TimeBound Take() {
    std::uint64_t frames = 0;
    for (std::size_t link = 0; link < options_.links.size(); ++link) {
      frames += options_.tier_bytes[link] / schedule_.page_bytes;
      const std::vector<Schedule> lanes = SplitLanes(schedule_, options_.tiers[link]);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        BoundLane(lanes[lane], lane, link, frames);
      }
      LinkTimeBound& bound = result_.links[link];
      bound.volume_s =
          LinkSeconds(options_.links[link], bound.bytes.in_bytes, bound.bytes.out_bytes);
    }
    JoinLinks();
    ChooseLargest();
    return std::move(result_);
  }

 private:
  void BoundLane(const Schedule& lane, std::size_t index, std::size_t link, std::uint64_t frames) {
    const PageVisits visits = VisitsOf(lane, options_.tiers[link]);
    const PageUses uses(visits, frames);
    LinkTimeBound& bound = result_.links[link];
    AddBytes(ComputeLinkBound(visits, uses, lane.page_bytes, options_.iterations_max),
             &bound.bytes);
    const std::vector<double> seconds = SecondsOf(lane);
    if (link == 0) AddLane(std::accumulate(seconds.begin(), seconds.end(), 0.0));
    bound.window_s = std::max(bound.window_s, result_.lanes[index].compute_s);
    if (NothingMoves(uses)) return;
    GapTable gaps(seconds, ChooseNodes(lane, options_));
    RaiseGaps({uses, options_.links[link], static_cast<double>(lane.page_bytes)}, &gaps);
    const WindowCycle cycle = LongestCycle(gaps);
    bound.window_s = std::max(bound.window_s, cycle.seconds);
    LaneGaps& joint = lane_gaps_[index];
    if (joint.links++ == 0) {
      joint.gaps = std::move(gaps);
      result_.lanes[index].cycle = cycle;
    } else {
      joint.gaps->RaiseTo(gaps);
    }
  }

  void AddLane(double compute_s) {
    result_.compute_s = std::max(result_.compute_s, compute_s);
    result_.lanes.push_back({.cycle = {.seconds = compute_s}, .compute_s = compute_s});
    lane_gaps_.emplace_back();
  }

  void JoinLinks() {
    for (std::size_t lane = 0; lane < lane_gaps_.size(); ++lane) {
      WindowCycle& cycle = result_.lanes[lane].cycle;
      if (lane_gaps_[lane].links > 1) cycle = LongestCycle(*lane_gaps_[lane].gaps);
      result_.window_s = std::max(result_.window_s, cycle.seconds);
    }
  }

  void ChooseLargest() {
    Offer(result_.compute_s, BoundKind::kCompute, 0);
    std::size_t widest = 0;
    for (std::size_t link = 0; link < result_.links.size(); ++link) {
      Offer(result_.links[link].volume_s, BoundKind::kVolume, link);
      Offer(result_.links[link].window_s, BoundKind::kWindow, link);
      if (result_.links[link].window_s > result_.links[widest].window_s) widest = link;
    }
    Offer(result_.window_s, BoundKind::kWindow, widest);
  }

  /// Offers a bound. It does not bind if it reaches no more than one found before, or more only by
  /// rounding.
  void Offer(double seconds, BoundKind kind, std::size_t link) {
    if (seconds <= result_.bound_s * (1 + 1e-12)) return;
    result_.bound_s = seconds;
    result_.binds = kind;
    result_.link = link;
  }

  const Schedule& schedule_;
  const TimeBoundOptions& options_;
  TimeBound result_;
  std::vector<LaneGaps> lane_gaps_;
};

}  // namespace

std::string_view ToString(BoundKind kind) {
  switch (kind) {
    case BoundKind::kCompute:
      return "compute";
    case BoundKind::kVolume:
      return "volume";
    case BoundKind::kWindow:
      return "window";
  }
  return "unknown";
}

double LinkSeconds(const BoundLink& link, double in_bytes, double out_bytes) {
  if (link.half) return Over(in_bytes + out_bytes, link.in_bytes_per_s);
  return std::max({Over(in_bytes, link.in_bytes_per_s),
                   Over(out_bytes, link.out_bytes_per_s),
                   Over(in_bytes + out_bytes, link.both_bytes_per_s)});
}

double TimeBound::LeastSeconds(int count) const {
  double least = 0;
  for (const LaneWindows& lane : lanes) {
    const auto length = static_cast<int>(lane.cycle.iterations);
    const int covered = count > 0 ? (count - 1) / length * length : 0;
    least = std::max(least, covered * lane.cycle.seconds + (count - covered) * lane.compute_s);
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    const BoundBytes& bytes = links[i].bytes;
    const double in_bytes = bytes.LeastIn(count);
    least = std::max(least, LinkSeconds(rates[i], in_bytes, bytes.LeastOut(count)));
  }
  return least;
}

TimeBound ComputeTimeBound(const Schedule& schedule, const TimeBoundOptions& options) {
  const std::size_t tiers = options.tiers.size();
  SLUICE_CHECK(tiers >= 2 && options.tier_bytes.size() == tiers, "a bound needs tiers and budgets");
  SLUICE_CHECK(options.links.size() + 1 == tiers, "tiers are joined by one link less");
  SLUICE_CHECK(schedule.page_bytes > 0, "a schedule knows its page size");
  return TimeBounder(schedule, options).Take();
}

}  // namespace sluice::analysis
