#include "runtime/core/plan/plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "runtime/core/plan/spread_reads.h"
#include "runtime/core/plan/tier_planner.h"

namespace sluice::core {
namespace {

/// Largest share of a link's capacity in an iteration that is planned with.
constexpr double kLinkShare = 0.9;
/// Stretch of the steps with which nothing ever waits for a link.
constexpr double kNoWaiting = 1e12;

Plan EmptyPlan(std::size_t steps) {
  Plan plan;
  plan.leaves.resize(steps);
  plan.fetches.resize(steps);
  return plan;
}

/// Factor by which links may count as faster when pages to leave are chosen.
constexpr double kSwift = 2;
/// Factor over the necessary time. Links count as faster if the other choice keeps the link busy
/// for longer than that. They also do if it is busy for clearly longer, and for more of the
/// iteration than is planned with.
constexpr double kBusyMax = 1.15;

/// Factor over the least traffic up to which a plan is as good. It counts where traffic is to be
/// saved, or the run waits for the link.
constexpr double kNearlyLeast = 1.02;

/// Bounds for a link that the run waits for, whatever is away in time. It is busy for kBound times
/// the steps; or for kNearlyBound times, and for kWasteful times as long as is necessary.
constexpr double kBound = 2;
constexpr double kNearlyBound = 1.25;
constexpr double kWasteful = 2;

/// Factor over the time of another plan up to which a plan is as fast.
constexpr double kAsFast = 1.03;

double SecondsOf(const PlanInput& input) {
  return std::accumulate(input.step_seconds.begin(), input.step_seconds.end(), 0.0);
}

/// Pace at which a link that needs `least` seconds is busy for that share of the time. All steps
/// are stretched by one factor.
TierPace PaceOf(double seconds, double least, double share) {
  return {.stretch = std::max(1.0, least / share / seconds)};
}

/// One tier's part of a plan.
struct TierPlan {
  Plan plan;
  std::vector<PlanSpan> below;
  double link_seconds = 0;
  double busiest_seconds = 0;  ///< seconds of the busiest link planned so far
};

/// Input of a plan, and the function that tells that it is not wanted any more.
struct PlanRequest {
  const PlanInput& input;
  const PlanStop& stop;
  /// Pages that are away from all tiers above the last link, to save traffic.
  const PagesAway* away_below = nullptr;
};

/// Aims of a tier's plan. Pages that the fastest tier sends below all others leave first, and late.
/// Pages that leave written come back sooner than the furthest, which before a single link costs
/// more than it gains.
TierAims AimsOf(const PlanRequest& request, TierIndex tier) {
  const bool traffic = request.input.objective == Objective::kTraffic;
  TierAims aims{.written_first = traffic || request.input.links.size() > 1};
  if (tier > 0 || request.away_below == nullptr) return aims;
  aims.leaves_late = true;
  aims.preferred = request.away_below;
  return aims;
}

/// Start of one tier's part. The objects that it refers to outlive it.
struct TierStart {
  TierIndex tier = 0;
  const std::vector<PlanSpan>& above;
  const Plan& plan;
};

TierPlan PlanTier(const PlanRequest& request, const TierStart& start, const TierPace& pace) {
  TierPlan result{.plan = start.plan};
  TierPlanner planner(request.input, start.tier, pace, AimsOf(request, start.tier), request.stop);
  result.below = planner.AddTo(start.above, &result.plan);
  result.link_seconds = planner.LinkSeconds();
  return result;
}

/// A plan that moves as little as can be, or hardly more. If pages are away in time, too, less room
/// is lost to pages on their way, and the tiers below have less to move.
TierPlan PlanForTraffic(const PlanRequest& request,
                        const TierStart& start,
                        TierPace pace,
                        double least) {
  for (const double swift : {1.0, kSwift}) {
    pace.swift = swift;
    TierPlan in_time = PlanTier(request, start, pace);
    if (in_time.link_seconds <= kNearlyLeast * least) return in_time;
  }
  pace.swift = 1;
  pace.in_no_time = true;
  return PlanTier(request, start, pace);
}

/// The best plan where the run waits for a lower link. Every copy without need is waited for then,
/// so the plan counts that moves less. `in_time`, with the usual share of the link, comes before
/// all others, as it has fewer pages away too late. Each of the others replaces the best so far if
/// it moves clearly less.
TierPlan LeastOfSeveral(const PlanRequest& request,
                        const TierStart& start,
                        TierPlan in_time,
                        double least) {
  struct Choice {
    double share;
    double swift;
  };
  constexpr std::array<Choice, 3> kOthers = {{{kLinkShare, kSwift}, {1, 1}, {1, kSwift}}};
  TierPlan best = std::move(in_time);
  for (const auto& [share, swift] : kOthers) {
    if (best.link_seconds <= kNearlyLeast * least) return best;
    TierPace pace = PaceOf(SecondsOf(request.input), least, share);
    pace.swift = swift;
    TierPlan other = PlanTier(request, start, pace);
    if (kNearlyLeast * other.link_seconds < best.link_seconds) best = std::move(other);
  }
  return best;
}

/// Note [Three choices]
/// Where links are slow, leaving out pages that would not be away in time makes others leave that
/// come back sooner. Much more then crosses the link, and ops wait for that instead. So the choice
/// is made again as if the link were faster, and some ops wait for pages to leave.
///
/// If the run waits for the link even so, the choice is made as if the link took no time, which
/// moves the least. The third choice is for the fastest tier alone: pages in flight take frames of
/// a middle one that the plan does not know. (A plan for traffic may do so in each tier:
/// PlanForTime.)
TierPlan BestPlan(const PlanRequest& request, const TierStart& start) {
  const double seconds = SecondsOf(request.input);
  const Plan nothing = EmptyPlan(request.input.step_seconds.size());
  const double least =
      PlanTier(request, {start.tier, start.above, nothing}, {.stretch = kNoWaiting}).link_seconds;
  TierPace pace = PaceOf(seconds, least, kLinkShare);
  if (request.input.objective == Objective::kTraffic) {
    return PlanForTraffic(request, start, pace, least);
  }
  TierPlan in_time = PlanTier(request, start, pace);
  if (start.tier > 0 && in_time.link_seconds > seconds) {
    return LeastOfSeveral(request, start, std::move(in_time), least);
  }
  // A link that has so little time left is waited for, however ops and pages fall.
  const bool fills = in_time.link_seconds > kLinkShare * seconds;
  if (in_time.link_seconds <= (fills ? kNearlyLeast : kBusyMax) * least) return in_time;
  pace.swift = kSwift;
  TierPlan swift = PlanTier(request, start, pace);
  const double busy = swift.link_seconds;
  const bool wasteful = busy > kNearlyBound * seconds && busy > kWasteful * least;
  if (start.tier > 0 || (busy <= kBound * seconds && !wasteful)) return swift;
  pace.in_no_time = true;
  return PlanTier(request, start, pace);
}

void SortByUse(std::vector<PlannedFetch>* fetches) {
  std::stable_sort(fetches->begin(), fetches->end(), [](const auto& a, const auto& b) {
    return std::pair(a.distance, a.tier) < std::pair(b.distance, b.tier);
  });
}

/// Plans all tiers, one after the other. The result's `link_seconds` is that of the last link.
TierPlan PlanAll(const PlanRequest& request) {
  const PlanInput& input = request.input;
  TierPlan all{.plan = EmptyPlan(input.step_seconds.size())};
  all.plan.recording = input.recording;
  if (input.step_seconds.empty()) return all;
  for (TierIndex tier = 0; tier < input.links.size() && !request.stop(); ++tier) {
    const double busiest = all.busiest_seconds;
    all = BestPlan(request, {tier, all.below, all.plan});
    all.busiest_seconds = std::max(busiest, all.link_seconds);
  }
  for (auto& fetches : all.plan.fetches) SortByUse(&fetches);
  all.plan.ListReturns();
  return all;
}

/// Pages that would be away from all tiers above the last link, taken as one, if that moved the
/// least.
PagesAway AwayBelow(const PlanInput& input, const PlanStop& stop) {
  PlanInput one = input;
  const std::size_t last = input.links.size();
  const auto end = input.frames.begin() + static_cast<std::ptrdiff_t>(last);
  one.frames = {std::accumulate(input.frames.begin(), end, FrameIndex{0})};
  one.links = {input.links.back()};
  for (PlanItem& item : one.items) {
    item.lowest = item.lowest < last ? 0 : 1;
    for (PlanUse& use : item.uses) use.tier = use.tier < last ? 0 : 1;
  }
  TierPlanner planner(one, 0, {.in_no_time = true}, {.written_first = true}, stop);
  Plan plan = EmptyPlan(input.step_seconds.size());
  planner.AddTo({}, &plan);
  return planner.away();
}

/// Plans for the objective of the input.
TierPlan PlanForObjective(const PlanInput& input, const PlanStop& stop) {
  PlanRequest request{.input = input, .stop = stop};
  const bool several = input.links.size() > 1 && !input.step_seconds.empty();
  if (input.objective == Objective::kTime || !several) return PlanAll(request);
  const PagesAway below = AwayBelow(input, stop);
  request.away_below = &below;
  return PlanAll(request);
}

/// Plans for time. Each tier's part of such a plan is made without a look at those below. In the
/// end the run may wait for the busiest link. That link may be over twice as busy as the busiest
/// one of a plan for traffic. The latter was then the faster plan on every machine that was tried
/// (docs/planner.md).
TierPlan PlanForTime(const PlanInput& input, const PlanStop& stop) {
  TierPlan plan = PlanForObjective(input, stop);
  if (input.links.size() < 2 || plan.busiest_seconds <= SecondsOf(input)) return plan;
  PlanInput other = input;
  other.objective = Objective::kTraffic;
  TierPlan least = PlanForObjective(other, stop);
  const bool wasteful = plan.busiest_seconds > kWasteful * least.busiest_seconds;
  return wasteful ? std::move(least) : std::move(plan);
}

/// Spreads reads where that is faster, or as fast and moves less.
TierPlan Spread(const PlanInput& input, const PlanStop& stop, TierPlan plan) {
  const std::optional<PlanInput> spread = SpreadReads(input);
  if (!spread.has_value() || stop()) return plan;
  TierPlan other = PlanForObjective(*spread, stop);
  if (stop()) return plan;
  const double seconds = SecondsOfReads(input, plan.plan);
  const double others = SecondsOfReads(input, other.plan);
  const bool faster = others * kAsFast < seconds;
  const bool less = others < seconds * kAsFast && other.link_seconds < plan.link_seconds;
  return faster || less ? std::move(other) : std::move(plan);
}

}  // namespace

void SetStepTimes(const std::vector<StepTime>& steps, double seconds, PlanInput* input) {
  std::vector<double> begins;
  for (const StepTime& step : steps) {
    begins.push_back(std::max(begins.empty() ? 0 : begins.back(), step.begin_s));
  }
  begins.push_back(std::max(begins.empty() ? 0 : begins.back(), seconds));
  input->step_seconds.clear();
  input->step_ends.clear();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    input->step_seconds.push_back(begins[i + 1] - begins[i]);
    const auto next = begins.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto after = std::lower_bound(next, begins.end(), steps[i].end_s * (1 - 1e-12));
    input->step_ends.push_back(static_cast<std::uint32_t>(after - begins.begin()));
  }
}

Plan MakePlan(const PlanInput& input) {
  return *TryMakePlan(input, [] { return false; });
}

void Plan::ListReturns() {
  returns.clear();
  for (std::size_t step = 0; step < fetches.size(); ++step) {
    for (const PlannedFetch& fetch : fetches[step]) {
      const auto use = static_cast<std::uint32_t>((step + fetch.distance) % fetches.size());
      returns.push_back({fetch.tier, use, fetch.first_page, fetch.pages});
    }
  }
  std::sort(returns.begin(), returns.end());
}

bool Plan::ComesInto(TierIndex tier, PageIndex page, std::uint32_t step) const {
  const PlannedReturn after{tier, step, page, UINT32_MAX};
  const auto next = std::upper_bound(returns.begin(), returns.end(), after);
  if (next == returns.begin()) return false;
  const PlannedReturn& last = *std::prev(next);
  return last.tier == tier && last.use == step && page - last.first_page < last.pages;
}

std::optional<Plan> TryMakePlan(const PlanInput& input, const PlanStop& stop) {
  TierPlan plan = input.objective == Objective::kTime ? PlanForTime(input, stop)
                                                      : PlanForObjective(input, stop);
  plan = Spread(input, stop, std::move(plan));
  plan.plan.leaves_make_room = input.links.size() > 1 && plan.link_seconds > SecondsOf(input);
  if (stop()) return std::nullopt;
  return std::move(plan.plan);
}

}  // namespace sluice::core
