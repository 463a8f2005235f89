#include "runtime/core/policies/custom_policy.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/core.h"
#include "tests/runtime/core/driver/random_workload.h"
#include "tests/runtime/core/policies/naive_caches.h"
#include "tests/runtime/core/policies/policy_cache.h"
#include "tests/support/plain_lru.h"

namespace sluice::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, CustomPolicy> OwnLru() {
  return {
      {"own", {.create = [] { return std::make_unique<testing::PlainLru>(); }, .online = true}}};
}

TEST(CustomPolicyTest, AnLruOfOnesOwnEvictsWhatTheReferenceEvicts) {
  const auto custom = OwnLru();
  for (const auto& [name, trace] : AllTraces({.length = 3'000, .pages = 120, .seed = 5})) {
    SCOPED_TRACE(name);
    PolicyCache cache(CreatePolicy("own", {.custom = &custom}).value(), 37, trace);
    const auto naive = MakeNaiveCache("lru", 37, trace);
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const NaiveCache::Outcome expected = naive->Access(trace[i].page);
      const PolicyCache::Step step = cache.Next();
      ASSERT_EQ(step.hit, expected.hit) << "access " << i;
      ASSERT_EQ(step.evicted, expected.evicted) << "access " << i;
    }
  }
}

/// Everything that the core tells the policy of the scenario.
std::vector<std::string> LogOf(Scenario scenario, const std::string& policy) {
  const auto custom = OwnLru();
  std::vector<std::string> log;
  scenario.driver.policy = policy;
  scenario.driver.custom_policies = &custom;
  scenario.driver.policy_log = &log;
  RandomWorkload workload(scenario);
  workload.Run();
  EXPECT_TRUE(workload.driver().verdict().ok()) << workload.driver().Report();
  return log;
}

TEST(CustomPolicyTest, TheCoreDoesTheSameUnderACustomPolicy) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.events = 500;
    const std::vector<std::string> log = LogOf(scenario, "own");
    EXPECT_GT(log.size(), 100u);
    ASSERT_EQ(log, LogOf(scenario, "lru")) << "seed " << seed;
  }
}

/// A policy that notes its calls.
class NotingPolicy : public Policy {
 public:
  explicit NotingPolicy(std::vector<std::string>* notes) : notes_(notes) {}
  void OnArrive(int tier, const PageFacts& facts) override {
    Note("arrive", tier, facts.page, facts.next_use);
  }
  void OnChange(int tier, const PageFacts& facts) override {
    Note("change", tier, facts.page, facts.next_use);
  }
  void OnUse(int tier, PageIndex page) override { Note("use", tier, page, kNever); }
  void OnLeave(int tier, PageIndex page, Departure) override { Note("leave", tier, page, kNever); }
  std::optional<PageIndex> Victim(const VictimRequest& request,
                                  const std::function<bool(PageIndex)>& evictable) override {
    notes_->push_back(fmt::format("victim {} of {} now {} for {}",
                                  request.tier,
                                  request.frames,
                                  request.now,
                                  request.incoming.value_or(kNoPage)));
    for (const PageIndex page : {0, 1, 2}) {
      if (evictable(page)) return page;
    }
    return std::nullopt;
  }

 private:
  void Note(const char* what, int tier, PageIndex page, Position use) {
    notes_->push_back(fmt::format("{} {}:{}{}", what, tier, page, use == kNever ? "" : " use"));
  }
  std::vector<std::string>* notes_;
};

TEST(CustomPolicyTest, ArrivalsUsesAndDeparturesAreToldOnce) {
  std::vector<std::string> notes;
  AdaptedPolicy policy("noting", false, std::make_unique<NotingPolicy>(&notes));
  policy.OnFrames(0, 3);
  policy.OnStep(7);
  policy.OnAccess(0, 1);  // a lease awaits it: its facts come later
  policy.OnInsert(0, {.page = 1, .next_use = 9});
  policy.OnRemove(0, 1);
  policy.OnInsert(0, {.page = 1, .next_use = 9});
  policy.OnInsert(0, {.page = 2});
  policy.OnRemove(0, 2);
  policy.OnWant(0, 5);
  EXPECT_EQ(policy.Victim(0, [](PageIndex) { return true; }), 1u);  // 2 is leased
  EXPECT_EQ(policy.Victim(0, [](PageIndex page) { return page != 1; }), std::nullopt);
  policy.OnLeave(0, 1, Departure::kVictim);
  policy.OnLeave(0, 1, Departure::kFreed);
  EXPECT_THAT(notes,
              ElementsAre("arrive 0:1",
                          "use 0:1",
                          "change 0:1 use",
                          "arrive 0:2",
                          "victim 0 of 3 now 7 for 5",
                          "victim 0 of 3 now 7 for 5",
                          "leave 0:1",
                          "leave 0:1"));
}

TEST(CustomPolicyTest, NamesThatCannotBeAreRefused) {
  auto custom = OwnLru();
  EXPECT_THAT(std::string(CreatePolicy("mine", {.custom = &custom}).status().message()),
              HasSubstr("random, own"));
  custom["empty"] = {};
  EXPECT_THAT(std::string(CreatePolicy("empty", {.custom = &custom}).status().message()),
              HasSubstr("custom policy \"empty\" makes no policy"));
  custom["lru"] = custom["own"];
  for (const char* name : {"lru", "empty", "own", "min"}) {
    EXPECT_THAT(std::string(CreatePolicy(name, {.custom = &custom}).status().message()),
                HasSubstr("custom policy \"lru\" has the name of a built-in one"));
  }
}

}  // namespace
}  // namespace sluice::core
