#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "tests/runtime/core/core_fixture.h"
#include "tests/runtime/core/plan/plan_cases.h"

namespace sluice::core {

/// A link that four pages cross in a step.
inline constexpr PlanLink kFourPerStep{.in_s = 0.25, .out_s = 0.25};

/// Requests of each op.
using Ops = std::vector<std::vector<PageRequest>>;

inline Ops ReadsOf(const std::vector<PageIndex>& pages) {
  Ops ops;
  for (const PageIndex page : pages) ops.push_back({Read(page)});
  return ops;
}

inline std::size_t FetchesIn(const Plan& plan) {
  std::size_t pages = 0;
  for (const auto& fetches : plan.fetches) {
    for (const PlannedFetch& fetch : fetches) pages += fetch.pages;
  }
  return pages;
}

/// A recorded iteration that follows a plan. The listed moves are made, and nothing waits.
class PlannedTest : public CoreFixture {
 protected:
  void StartPlanned(const std::vector<FrameIndex>& frames,
                    PageIndex pages,
                    std::uint32_t copies_in_flight_max = 4) {
    Start({.frames = frames, .policy = "planned", .copies_in_flight_max = copies_in_flight_max});
    Create(pages, static_cast<TierIndex>(frames.size() - 1));
    for (PageIndex page = 0; page < pages; ++page) RunOp({Write(page)});
  }

  struct Moved {
    std::size_t waited = 0;  ///< ops whose pages were not there
    std::uint64_t fetched = 0;
    std::uint64_t late = 0;
    std::uint64_t written_demand = 0;
    std::uint64_t written_ahead = 0;
    std::uint64_t cleaned = 0;
  };
  /// One iteration, in which every transfer ends in the step in which it begins. With a plan:
  /// after every step, pages are where it has them.
  Moved Iterate(const Ops& ops, KeyIndex key = 0, const Plan* plan = nullptr) {
    const CoreCounters before = driver().core().counters();
    Moved moved;
    driver().Send(BeginIteration{key});
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const TicketNumber ticket = Acquire(ops[i], 0, 0, i);
      moved.waited += Granted(ticket) ? 0 : 1;
      driver().Drain();
      Release(ticket);
      driver().Drain();
      if (plan != nullptr) ExpectAsListed(*plan, i);
    }
    driver().Send(EndIteration{});
    const CoreCounters& after = driver().core().counters();
    moved.fetched = after.prefetch_issued - before.prefetch_issued;
    moved.late = after.prefetch_late - before.prefetch_late;
    moved.written_demand = after.written_demand - before.written_demand;
    moved.written_ahead = after.written_ahead - before.written_ahead;
    moved.cleaned = after.cleaned - before.cleaned;
    return moved;
  }

  std::shared_ptr<const Plan> PlanOf(KeyIndex key) {
    PlanInput input = driver().core().RecordedPlan(key);
    const std::size_t steps = driver().core().RecordedSteps(key).size();
    input.step_seconds.assign(steps, 1.0);
    for (std::uint32_t i = 0; i < steps; ++i) input.step_ends.push_back(i + 1);
    input.links.assign(input.frames.size() - 1, kFourPerStep);
    return std::make_shared<const Plan>(MakePlan(input));
  }
  /// Iterations until the plan's pages are where it has them, whatever was there before.
  void Settle(const Ops& ops) {
    for (int i = 0; i < 3; ++i) Iterate(ops);
  }
  /// Records the iteration and adopts its plan.
  std::shared_ptr<const Plan> RecordAndAdopt(const Ops& ops, KeyIndex key = 0) {
    Iterate(ops, key);
    std::shared_ptr<const Plan> plan = PlanOf(key);
    driver().Send(AdoptPlan{key, plan});
    return plan;
  }
  /// Records the iteration, and adopts a plan with the given moves alone.
  void RecordAndAdopt(const Ops& ops,
                      const std::map<std::uint32_t, std::vector<PlannedLeave>>& leaves,
                      const std::map<std::uint32_t, std::vector<PlannedFetch>>& fetches = {}) {
    auto plan = std::make_shared<Plan>(*RecordAndAdopt(ops));
    for (auto& step : plan->leaves) step.clear();
    for (auto& step : plan->fetches) step.clear();
    for (const auto& [step, listed] : leaves) plan->leaves[step] = listed;
    for (const auto& [step, listed] : fetches) plan->fetches[step] = listed;
    plan->ListReturns();
    driver().Send(AdoptPlan{0, plan});
  }
  /// Runs steps [`from`, `to`). All transfers end after each step.
  void RunSteps(const Ops& ops, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) RunOp(ops[i], 0, i);
  }
  /// Runs a step without ending transfers. Returns the actions at the release of its pages.
  std::vector<Action> RunStep(const Ops& ops, std::uint32_t step) {
    const TicketNumber ticket = Acquire(ops[step], 0, 0, step);
    EXPECT_TRUE(Granted(ticket));
    Release(ticket);
    return actions();
  }
  static bool Copies(const std::vector<Action>& actions, PageIndex page, TierIndex source) {
    const std::vector<StartCopy> copies = Select<StartCopy>(actions);
    return std::any_of(copies.begin(), copies.end(), [&](const StartCopy& copy) {
      return copy.page == page && copy.source == source;
    });
  }

 private:
  /// Checks for every page in tier 0 that the plan's last move of it has been made.
  void ExpectAsListed(const Plan& plan, std::uint32_t step) {
    const auto steps = static_cast<std::uint32_t>(plan.leaves.size());
    std::map<PageIndex, bool> there;
    for (std::uint32_t i = 1; i <= steps; ++i) {
      const std::uint32_t at = (step + i) % steps;
      Note(plan.fetches[at], true, &there);
      Note(plan.leaves[at], false, &there);
    }
    for (const auto& [page, is_there] : there) {
      EXPECT_EQ(Resident(page, 0), is_there) << "page " << page << " after step " << step;
    }
  }
  template <typename Entry>
  static void Note(const std::vector<Entry>& entries,
                   bool is_there,
                   std::map<PageIndex, bool>* there) {
    for (const Entry& entry : entries) {
      if (entry.tier != 0 || Stays(entry)) continue;
      for (PageIndex i = 0; i < entry.pages; ++i) (*there)[entry.first_page + i] = is_there;
    }
  }
  static bool Stays(const PlannedLeave& leave) { return leave.stays; }
  static bool Stays(const PlannedFetch&) { return false; }
};

}  // namespace sluice::core
