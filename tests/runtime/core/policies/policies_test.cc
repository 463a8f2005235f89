#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/core.h"
#include "tests/runtime/core/policies/policy_cache.h"
#include "tests/runtime/core/policies/trace.h"

namespace sluice::core {
namespace {

using ::testing::HasSubstr;

constexpr auto kAny = [](PageIndex) { return true; };

TEST(CreatePolicyTest, KnowsEveryNameAndListsThem) {
  for (const std::string& name : PolicyNames()) {
    const auto policy = CreatePolicy(name);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ((*policy)->name(), name);
    EXPECT_EQ((*policy)->online(), name != "min" && name != "next-use-cost" && name != "planned");
  }
  const std::string message(CreatePolicy("2-q").status().message());
  for (const std::string& name : PolicyNames()) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_THAT(message, HasSubstr("did you mean \"2q\"?"));
}

class EveryPolicyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { policy_->OnFrames(0, 8); }

  void Come(PageIndex page) {
    policy_->OnInsert(0, {.page = page});
    policy_->OnAccess(0, page);
  }
  void Evict(PageIndex page) {
    policy_->OnRemove(0, page);
    policy_->OnLeave(0, page, Departure::kVictim);
  }

  std::unique_ptr<CheckedPolicy> policy_ =
      std::make_unique<CheckedPolicy>(CreatePolicy(GetParam()).value(), nullptr);
};

TEST_P(EveryPolicyTest, LeasedPagesAreNoVictimsAndComeBack) {
  for (PageIndex page = 0; page < 8; ++page) Come(page);
  for (PageIndex page = 0; page < 8; ++page) {
    if (page != 5) policy_->OnRemove(0, page);
  }
  EXPECT_EQ(policy_->Victim(0, kAny), std::optional<PageIndex>(5));
  policy_->OnRemove(0, 5);
  EXPECT_EQ(policy_->Victim(0, kAny), std::nullopt);
  for (PageIndex page = 0; page < 8; ++page) policy_->OnInsert(0, {.page = page});
  std::set<PageIndex> victims;
  for (int i = 0; i < 8; ++i) {
    const auto victim = policy_->Victim(0, kAny);
    ASSERT_TRUE(victim.has_value());
    EXPECT_TRUE(victims.insert(*victim).second);
    Evict(*victim);
  }
  EXPECT_EQ(policy_->Victim(0, kAny), std::nullopt);
}

TEST_P(EveryPolicyTest, OnlyAcceptedPagesAreVictims) {
  for (PageIndex page = 0; page < 8; ++page) {
    Come(page);
    for (PageIndex again = 0; again < page; ++again) policy_->OnAccess(0, page);
  }
  for (PageIndex only = 0; only < 8; ++only) {
    const auto accepts = [&](PageIndex page) { return page == only; };
    EXPECT_EQ(policy_->Victim(0, accepts), std::optional(only));
  }
  EXPECT_EQ(policy_->Victim(0, [](PageIndex) { return false; }), std::nullopt);
}

TEST_P(EveryPolicyTest, TiersAreSeparate) {
  policy_->OnFrames(1, 8);
  Come(3);
  EXPECT_EQ(policy_->Victim(1, kAny), std::nullopt);
  policy_->OnInsert(1, {.page = 3});
  Evict(3);
  EXPECT_EQ(policy_->Victim(0, kAny), std::nullopt);
  EXPECT_EQ(policy_->Victim(1, kAny), std::optional<PageIndex>(3));
}

/// Events are leases, departures of all kinds, evictions that are broken off, and other numbers of
/// frames. CheckedPolicy checks that each victim may leave, and that one is found.
TEST_P(EveryPolicyTest, StandsWhateverHappens) {
  constexpr std::uint64_t kSeed = 20'261'122;
  RecordProperty("seed", std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  std::map<PageIndex, bool> there;  // whether it may be evicted
  std::map<PageIndex, PageFacts> told;
  const auto facts_of = [&](PageIndex page) {
    PageFacts facts{.page = page};
    facts.free_to_leave = random() % 2 == 0;
    facts.free_to_return = random() % 2 == 0;
    if (!policy_->online() && random() % 4 != 0) facts.next_use = random() % 20;
    return told[page] = facts;
  };
  for (int i = 0; i < 50'000; ++i) {
    const auto page = static_cast<PageIndex>(random() % 30);
    const auto found = there.find(page);
    const std::uint64_t dice = random() % 100;
    if (dice < 2) policy_->OnFrames(0, 1 + random() % 12);
    if (dice < 20) {
      if (dice % 2 == 0) policy_->OnWant(0, page);
      std::vector<PageIndex> few;
      for (const auto& [p, may_leave] : there) {
        if (may_leave && (p + page) % 4 == 0) few.push_back(p);
      }
      if (!few.empty()) {
        EXPECT_NE(policy_->VictimAmong(0, few), std::nullopt);
      }
      if (!policy_->online()) {
        policy_->VictimToDrop(
            0, [&](PageIndex p) { return told.at(p).free_to_leave && (p + page) % 3 != 0; });
      }
      const Position use_min = random() % 20;
      policy_->VictimToWrite(0, use_min, [&](PageIndex p) {
        const PageFacts& facts = told.at(p);
        return !facts.free_to_leave && facts.next_use >= use_min && (p + page) % 3 != 0;
      });
      const auto victim = policy_->Victim(0, [&](PageIndex p) { return (p + page) % 3 != 0; });
      if (!victim.has_value() || dice < 10) continue;
      Evict(*victim);
      there.erase(*victim);
    } else if (found == there.end()) {
      if (dice < 30) policy_->OnLeave(0, page, Departure::kFreed);
      if (dice < 50) policy_->OnAccess(0, page);
      if (dice >= 50) policy_->OnInsert(0, facts_of(page));
      there[page] = dice >= 50;
    } else if (dice < 50) {
      policy_->OnAccess(0, page);
    } else if (dice < 60 && found->second) {
      policy_->OnChange(0, facts_of(page));
    } else if (dice < 90) {
      found->second ? policy_->OnRemove(0, page) : policy_->OnInsert(0, facts_of(page));
      found->second = !found->second;
    } else {
      if (found->second) policy_->OnRemove(0, page);
      policy_->OnLeave(0, page, dice < 95 ? Departure::kOther : Departure::kFreed);
      there.erase(found);
    }
  }
}

TEST_P(EveryPolicyTest, IsDeterministic) {
  const Trace trace = ZipfTrace({.length = 3000, .pages = 100, .seed = 7});
  PolicyCache one(GetParam(), 20, trace), other(GetParam(), 20, trace);
  while (!one.done()) ASSERT_EQ(one.Next().evicted, other.Next().evicted);
}

TEST(RandomPolicyTest, SeedsDecideAndEveryPageHasItsTurn) {
  const auto victims = [](std::uint64_t seed) {
    const auto policy = CreatePolicy("random", {.random_seed = seed}).value();
    for (PageIndex page = 0; page < 10; ++page) policy->OnInsert(0, {.page = page});
    std::map<PageIndex, int> counts;
    for (int i = 0; i < 10'000; ++i) {
      const PageIndex victim = policy->Victim(0, kAny).value();
      ++counts[victim];
      policy->OnRemove(0, victim);
      policy->OnLeave(0, victim, Departure::kVictim);
      policy->OnInsert(0, {.page = victim});
    }
    return counts;
  };
  EXPECT_EQ(victims(1), victims(1));
  EXPECT_NE(victims(1), victims(2));
  for (const auto& [page, count] : victims(3)) EXPECT_NEAR(count, 1000, 200) << page;
}

/// The index of a freed page may come to mean another page, so a policy must forget it.
TEST(GhostTest, FreedPagesAreNotRemembered) {
  for (const char* name : {"2q", "arc", "s3fifo"}) {
    SCOPED_TRACE(name);
    for (const bool freed : {false, true}) {
      const auto policy = CreatePolicy(name).value();
      policy->OnFrames(0, 4);
      const auto come = [&](PageIndex page) {
        policy->OnInsert(0, {.page = page});
        policy->OnAccess(0, page);
      };
      const auto evict = [&](PageIndex incoming) {
        policy->OnWant(0, incoming);
        const PageIndex victim = policy->Victim(0, kAny).value();
        policy->OnRemove(0, victim);
        policy->OnLeave(0, victim, Departure::kVictim);
        return victim;
      };
      for (PageIndex page = 0; page < 4; ++page) come(page);
      policy->OnAccess(0, 3);  // arc's L1 is not full
      EXPECT_EQ(evict(4), 0u);
      come(4);
      if (freed) policy->OnLeave(0, 0, Departure::kFreed);
      evict(0);
      come(0);  // remembered: to the pages that are kept
      int evictions = 0;
      for (PageIndex page = 10; page < 30; ++page) {
        if (evict(page) == 0) break;
        come(page);
        ++evictions;
      }
      EXPECT_EQ(evictions == 20, !freed);
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param == "2q" ? "two_queue" : info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, EveryPolicyTest, ::testing::ValuesIn(PolicyNames()), NameOf);

}  // namespace
}  // namespace sluice::core
