#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/plan/plan_cases.h"

namespace sluice::core {
namespace {

constexpr std::uint32_t kApart = 4;

/// Machines and schedules of up to 40 steps; an item's uses are at least kApart steps apart.
class RandomInputs {
 public:
  explicit RandomInputs(std::uint32_t seed) : random_(seed) {}

  PlanInput Draw() {
    PlanInput input = EvenSteps(Between(12, 40), {Between(1, 20)});
    if (Between(0, 1) == 0) input.frames = {input.frames[0], Between(1, 20), 1000};
    input.links.clear();
    for (std::size_t i = 0; i + 1 < input.frames.size(); ++i) input.links.push_back(DrawLink());
    for (double& seconds : input.step_seconds) seconds = Between(0, 4) * 0.5;
    for (std::uint32_t& end : input.step_ends) end += Between(0, kApart - 2);
    const std::uint32_t items = Between(1, 10);
    for (std::uint32_t i = 0; i < items; ++i) {
      AddItem(&input, Between(1, 5), DrawUses(input));
      input.items.back().lowest = DrawLowest(input);
    }
    return input;
  }

  /// One fast tier with a link that takes no time, and nothing that dies.
  PlanInput DrawFreeLink() {
    PlanInput input = EvenSteps(Between(12, 40), {Between(4, 20)}, {.in_s = 1e-9, .out_s = 1e-9});
    const std::uint32_t items = Between(1, 10);
    for (std::uint32_t i = 0; i < items; ++i) {
      std::vector<PlanUse> uses = DrawUses(input);
      for (PlanUse& use : uses) use.dies = false;
      for (PlanUse& use : uses) use.mode = std::min(use.mode, PageMode::kWrite);
      AddItem(&input, Between(1, 3), std::move(uses));
    }
    return input;
  }

 private:
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  /// A tier that the last item may not leave, no faster one than its uses are in.
  TierIndex DrawLowest(const PlanInput& input) {
    TierIndex lowest = 0;
    for (const PlanUse& use : input.items.back().uses) lowest = std::max(lowest, use.tier);
    return static_cast<TierIndex>(Between(lowest, static_cast<TierIndex>(input.links.size())));
  }

  PlanLink DrawLink() {
    PlanLink link{.in_s = Between(1, 8) * 0.1, .out_s = Between(1, 8) * 0.1};
    if (Between(0, 1) == 0) link.both_s = Between(1, 4) * 0.1;
    return link;
  }

  /// Uses of an item. Its content dies or is overwritten only if all uses are in tier 0, since then
  /// it needs no fetch.
  std::vector<PlanUse> DrawUses(const PlanInput& input) {
    const auto steps = static_cast<std::uint32_t>(input.step_seconds.size());
    const bool mixed = input.links.size() > 1 && Between(0, 2) == 0;
    std::vector<PlanUse> uses;
    const std::uint32_t first = Between(0, kApart);
    for (std::uint32_t step = first; step < first + steps - kApart && step < steps;
         step += Between(kApart, 12)) {
      PlanUse use{.step = step, .tier = static_cast<TierIndex>(mixed ? Between(0, 1) : 0)};
      use.mode = Between(0, 1) == 0 ? PageMode::kRead : PageMode::kWrite;
      if (!mixed && Between(0, 4) == 0) use.mode = PageMode::kOverwrite;
      use.dies = !mixed && Between(0, 4) == 0;
      use.map = Between(0, 3) == 0;
      uses.push_back(use);
    }
    return uses;
  }

  std::mt19937 random_;
};

const PlanItem* ItemOf(const PlanInput& input, PageIndex first, std::uint32_t pages) {
  for (const PlanItem& item : input.items) {
    if (first >= item.first_page && first + pages <= item.first_page + item.pages) return &item;
  }
  return nullptr;
}

/// Moves of a page in a tier, by time: true if the page comes. Leaves take place after their step,
/// fetches at the begin of theirs.
using Moves = std::map<std::uint64_t, bool>;
std::map<std::pair<PageIndex, TierIndex>, Moves> MovesOf(const Plan& plan) {
  std::map<std::pair<PageIndex, TierIndex>, Moves> moves;
  const auto add = [&moves](const auto& entry, std::uint64_t time, bool comes) {
    for (PageIndex page = entry.first_page; page < entry.first_page + entry.pages; ++page) {
      Moves& of_page = moves[{page, entry.tier}];
      EXPECT_TRUE(of_page.emplace(time, comes).second) << "listed twice";
    }
  };
  for (std::size_t step = 0; step < plan.leaves.size(); ++step) {
    for (const PlannedLeave& leave : plan.leaves[step]) {
      if (!leave.stays) add(leave, 2 * step + 1, false);
    }
    for (const PlannedFetch& fetch : plan.fetches[step]) add(fetch, 2 * step, true);
  }
  return moves;
}

void ExpectForItsUse(const PlanInput& input, const PlannedFetch& fetch, std::uint32_t step) {
  const auto steps = static_cast<std::uint32_t>(input.step_seconds.size());
  ASSERT_GT(fetch.pages, 0u);
  ASSERT_LE(fetch.distance, steps);
  const PlanItem* item = ItemOf(input, fetch.first_page, fetch.pages);
  ASSERT_NE(item, nullptr) << "pages " << fetch.first_page << " + " << fetch.pages;
  const auto use = std::find_if(item->uses.begin(), item->uses.end(), [&](const PlanUse& u) {
    return u.step == (step + fetch.distance) % steps;
  });
  ASSERT_NE(use, item->uses.end()) << "a fetch serves no use";
  EXPECT_LE(use->tier, fetch.tier);
  if (use->tier == fetch.tier) {
    EXPECT_EQ(use->mode, fetch.mode);
    EXPECT_EQ(use->map, fetch.map);
  }
  const auto index = static_cast<std::size_t>(use - item->uses.begin());
  const std::size_t uses = item->uses.size();
  const PlanUse& before = item->uses[(index + uses - 1) % uses];
  const std::uint32_t apart = (use->step + steps - before.step - 1) % steps + 1;
  const std::uint32_t held = input.step_ends[before.step] - before.step;
  EXPECT_LE(fetch.distance + held, apart) << "the page comes while it is still used";
  EXPECT_FALSE(before.dies || use->mode == PageMode::kOverwrite)
      << "a page without content is fetched";
  EXPECT_GT(item->lowest, fetch.tier) << "a page that cannot leave the tier comes into it";
}

void ExpectInOrder(const PlanInput& input, const Plan& plan) {
  ASSERT_EQ(plan.leaves.size(), input.step_seconds.size());
  ASSERT_EQ(plan.fetches.size(), input.step_seconds.size());
  for (std::uint32_t step = 0; step < plan.fetches.size(); ++step) {
    std::uint32_t distance = 0;
    for (const PlannedFetch& fetch : plan.fetches[step]) {
      ExpectForItsUse(input, fetch, step);
      EXPECT_LE(distance, fetch.distance);
      distance = fetch.distance;
    }
    for (const PlannedLeave& leave : plan.leaves[step]) {
      EXPECT_GT(leave.pages, 0u);
      const PlanItem* item = ItemOf(input, leave.first_page, leave.pages);
      ASSERT_NE(item, nullptr);
      EXPECT_GT(item->lowest, leave.tier) << "a page leaves that cannot";
      EXPECT_LT(leave.tier, input.links.size());
    }
  }
  for (const auto& [where, moves] : MovesOf(plan)) {
    bool comes = moves.rbegin()->second;
    for (const auto& [time, move] : moves) {
      EXPECT_NE(move, comes) << "page " << where.first << ", tier " << int{where.second}
                             << ": leaves and comes in turn, step " << time / 2;
      comes = move;
    }
  }
}

TEST(PlanRandomTest, PagesThatLeaveComeBackAfterThatAndBeforeTheirUse) {
  for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanInput input = RandomInputs(seed).Draw();
    ExpectInOrder(input, MakePlan(input));
    if (HasFailure()) return;
  }
}

std::uint64_t PagesFetched(const Plan& plan) {
  std::uint64_t pages = 0;
  for (const auto& fetches : plan.fetches) {
    for (const PlannedFetch& fetch : fetches) pages += fetch.pages;
  }
  return pages;
}

/// Note [Three choices] has the reason.
TEST(PlanRandomTest, SlowLinksDoNotMakeMuchMoreCrossThem) {
  std::uint64_t slow = 0, fast = 0;
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    PlanInput input = RandomInputs(seed).DrawFreeLink();
    fast += PagesFetched(MakePlan(input));
    input.links = {{.in_s = 1.5, .out_s = 1.5}};
    slow += PagesFetched(MakePlan(input));
  }
  EXPECT_LE(static_cast<double>(slow), 1.1 * static_cast<double>(fast))
      << slow << " pages where " << fast << " would do";
}

TEST(PlanRandomTest, SameInputSamePlan) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanInput input = RandomInputs(seed).Draw();
    const Plan one = MakePlan(input);
    const Plan two = MakePlan(input);
    ASSERT_EQ(one.leaves, two.leaves);
    ASSERT_EQ(one.fetches, two.fetches);
  }
}

/// Pages that are there in each step if every move takes no time.
std::vector<std::uint32_t> ThereIn(const PlanInput& input, const Plan& plan) {
  const auto steps = static_cast<std::uint32_t>(input.step_seconds.size());
  std::uint32_t all = 0;
  for (const PlanItem& item : input.items) all += item.pages;
  std::vector<std::uint32_t> there(steps, all);
  for (const auto& [where, moves] : MovesOf(plan)) {
    bool is_there = moves.rbegin()->second;
    for (std::uint32_t step = 0; step < steps; ++step) {
      if (moves.contains(2 * step)) is_there = true;
      if (!is_there) --there[step];
      if (moves.contains(2 * step + 1)) is_there = false;
    }
  }
  return there;
}

TEST(PlanRandomTest, NoMorePagesAreThereThanFitWithAFreeLink) {
  for (std::uint32_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanInput input = RandomInputs(seed).DrawFreeLink();
    const std::vector<std::uint32_t> there = ThereIn(input, MakePlan(input));
    const auto steps = static_cast<std::uint32_t>(there.size());
    std::vector<std::uint32_t> used(steps);
    for (const PlanItem& item : input.items) {
      for (const PlanUse& use : item.uses) used[use.step] += item.pages;
    }
    for (std::uint32_t step = 0; step < steps; ++step) {
      // Pages may come in the step before their use, and leave in the step after if they were
      // written.
      const std::uint32_t needed =
          used[(step + steps - 1) % steps] + used[step] + used[(step + 1) % steps];
      ASSERT_LE(there[step], std::max(input.frames[0], needed)) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace sluice::core
