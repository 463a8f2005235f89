#include <algorithm>

#include "runtime/core/plan/tier_planner.h"

/// Times at which pages that a tier's sweep has chosen leave, are written and come back.

namespace sluice::core {
namespace {

/// A page comes this share of the iteration before it is needed, or more, where that costs nothing.
constexpr double kLeadShare = 0.01;

}  // namespace

/// `resident`: what the sweep has left there. Lists all in the plan.
void TierPlanner::SetTimes(std::vector<PlannedGap>* planned, std::vector<std::int64_t> resident) {
  for (std::uint64_t step = 0; input_.room_first && step < steps_ && !stop_(); ++step) {
    ComeLater(step, planned, &resident);
  }
  if (swift_) BeginInTime(planned, &resident);
  std::stable_sort(planned->begin(), planned->end(), [](const auto& a, const auto& b) {
    return a.in_begin < b.in_begin;
  });
  for (PlannedGap& gap : *planned) {
    if (stop_()) break;
    gap.in_begin = Lead(gap, &resident);
  }
  WriteBesideReads(planned, &resident);
  if (aims_.leaves_late) LeaveLate(planned, &resident);
  for (const PlannedGap& gap : *planned) {
    if (stop_()) break;
    Emit(gap);
  }
  EmitDowns(&resident);
}

/// Has pages without room in the step come after it, those of the furthest use first. They would
/// else take the frames of pages that are used before them.
void TierPlanner::ComeLater(std::uint64_t step,
                            std::vector<PlannedGap>* planned,
                            std::vector<std::int64_t>* resident) {
  const auto excess = [&] {
    return (*resident)[step] - static_cast<std::int64_t>(input_.frames[tier_]);
  };
  if (excess() <= 0) return;
  std::vector<std::pair<std::uint64_t, PlannedGap*>> early;
  for (PlannedGap& gap : *planned) {
    const std::uint64_t to = gaps_[gap.gap].to;
    const std::uint64_t at = step >= gap.in_begin ? step : step + steps_;
    if (at >= gap.in_begin && at < to) early.emplace_back(to - at, &gap);
  }
  std::stable_sort(
      early.begin(), early.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [left, gap] : early) {
    if (excess() <= 0) return;
    const std::uint64_t begin = gaps_[gap->gap].to - left + 1;
    for (; gap->in_begin < begin; ++gap->in_begin)
      (*resident)[gap->in_begin % steps_] -= gap->pages;
  }
}

/// Has page-ins begin as early as the link needs, while there is room.
void TierPlanner::BeginInTime(std::vector<PlannedGap>* planned,
                              std::vector<std::int64_t>* resident) {
  std::stable_sort(planned->begin(), planned->end(), [this](const auto& a, const auto& b) {
    return gaps_[a.gap].to > gaps_[b.gap].to;
  });
  for (PlannedGap& gap : *planned) {
    if (stop_()) return;
    const std::uint64_t to = gaps_[gap.gap].to;
    const std::uint64_t wanted = real_.InBegin(gap.out_done, to, gap.pages);
    while (gap.in_begin > wanted) {
      std::int64_t& there = (*resident)[(gap.in_begin - 1) % steps_];
      if (there + gap.pages > input_.frames[tier_]) break;
      there += gap.pages;
      --gap.in_begin;
    }
    real_.TakeIn(gap.in_begin, to, gap.pages);
  }
}

/// Page-outs slow down page-ins of the same time, and take processors when ops may wait. Pages that
/// have room for longer are written when nothing comes.
void TierPlanner::WriteBesideReads(std::vector<PlannedGap>* planned,
                                   std::vector<std::int64_t>* resident) {
  PlanLink link = input_.links[tier_];
  link.both_s = std::max({link.in_s, link.out_s, link.both_s});
  LinkCalendar quiet(Stretched(input_.step_seconds, stretch_), link);
  for (const PlannedGap& gap : *planned) {
    quiet.TakeIn(gap.out_done, gaps_[gap.gap].to, gap.pages);
  }
  for (PlannedGap& gap : *planned) {
    if (stop_()) return;
    if (MayWait(gap)) WriteInQuiet(&gap, &quiet, resident);
  }
}

/// Whether the pages may wait to be written: the use that has written them is also their last.
bool TierPlanner::MayWait(const PlannedGap& planned) const {
  const PlanSpan& span = gap_spans_[planned.gap];
  return planned.write_pages > 0 && !span.from_above && gaps_[planned.gap].write_use == span.use;
}

void TierPlanner::WriteInQuiet(PlannedGap* gap,
                               LinkCalendar* quiet,
                               std::vector<std::int64_t>* resident) const {
  const std::uint64_t from = gaps_[gap->gap].from;
  std::uint64_t end = gap->out_done;
  while (end < gap->in_begin && (*resident)[end % steps_] + gap->pages <= input_.frames[tier_]) {
    ++end;
  }
  const std::uint64_t done = quiet->OutDone(from, end, gap->write_pages);
  const std::uint64_t begin = quiet->OutBegin(from, done, gap->write_pages);
  quiet->TakeOut(begin, done, gap->write_pages);
  if (begin <= from || done <= gap->out_done) return;
  for (std::uint64_t at = gap->out_done; at < done; ++at) (*resident)[at % steps_] += gap->pages;
  gap->out_begin = begin;
  gap->out_done = done;
  gap->since_clean = 0;
}

/// Has pages leave late. Pages that the last use has written are written once they leave, and come
/// first. A page that is written early for another reason has two copies for as long as it stays.
void TierPlanner::LeaveLate(std::vector<PlannedGap>* planned,
                            std::vector<std::int64_t>* resident) const {
  std::stable_partition(
      planned->begin(), planned->end(), [this](const PlannedGap& gap) { return MayWait(gap); });
  for (PlannedGap& gap : *planned) {
    if (stop_()) return;
    std::uint64_t end = gap.out_done;
    while (end < gap.in_begin && (*resident)[end % steps_] + gap.pages <= input_.frames[tier_]) {
      (*resident)[end % steps_] += gap.pages;
      ++end;
    }
    if (end == gap.out_done) continue;
    gap.since_clean = MayWait(gap) ? 0 : gap.since_clean + (end - gap.out_done);
    gap.out_begin = gap.out_done = end;
  }
}

/// Pages come so much earlier than just in time where that costs nothing.
double TierPlanner::LeadSeconds() const {
  double total = 0;
  for (const double seconds : input_.step_seconds) total += seconds;
  return std::max(total * kLeadShare, input_.lead_seconds);
}

/// Step in which the pages may begin to come so that jitter does not matter, while there is room.
std::uint64_t TierPlanner::Lead(const PlannedGap& planned,
                                std::vector<std::int64_t>* resident) const {
  const double enough = LeadSeconds();
  double lead = 0;
  std::uint64_t begin = planned.in_begin;
  while (begin > planned.out_done && lead < enough) {
    std::int64_t& there = (*resident)[(begin - 1) % steps_];
    if (there + planned.pages > input_.frames[tier_]) break;
    there += planned.pages;
    --begin;
    lead += input_.step_seconds[begin % steps_];
  }
  return begin;
}

/// Whether not all pages fit in the tier, though fewer may be used at any time.
bool TierPlanner::IsShort(TierIndex tier) const {
  std::uint64_t pages = 0;
  for (const PlanItem& item : input_.items) pages += item.pages;
  return pages > input_.frames[tier];
}

/// Emits the downs. If the tier below is short, pages that it needs stay here while there is room:
/// first those that wait for the shortest time, as they take the least.
void TierPlanner::EmitDowns(std::vector<std::int64_t>* resident) {
  std::stable_sort(downs_.begin(), downs_.end(), [](const Down& a, const Down& b) {
    return a.span.to - a.span.from < b.span.to - b.span.from;
  });
  const auto below = static_cast<TierIndex>(tier_ + 1);
  const bool stays = below < input_.links.size() && IsShort(below);
  for (Down& down : downs_) {
    if (stop_()) return;
    if (stays) StayLonger(&down, resident);
    plan_->leaves[LeaveStep(down.span, down.begin)].push_back(
        {down.span.first_page, down.span.pages, tier_});
    PlanSpan passed = down.span;
    passed.from = down.done;
    passed.begins_here = true;
    PassOn(passed);
  }
}

void TierPlanner::StayLonger(Down* down, std::vector<std::int64_t>* resident) const {
  const std::int64_t pages = down->span.pages;
  std::uint64_t end = down->done;
  while (end < down->span.to && (*resident)[end % steps_] + pages <= input_.frames[tier_]) ++end;
  std::uint64_t begin = real_.OutBegin(down->span.from, end, down->span.pages);
  const double enough = end < down->span.to ? 0 : LeadSeconds();
  for (double lead = 0; begin > down->span.from && lead < enough; --begin) {
    lead += input_.step_seconds[(begin - 1) % steps_];
  }
  const std::uint64_t done = std::min(end, real_.OutDone(begin, end, down->span.pages));
  if (done <= down->done) return;
  for (std::uint64_t at = down->done; at < done; ++at) (*resident)[at % steps_] += pages;
  down->begin = begin;
  down->done = done;
}

}  // namespace sluice::core
