#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tests/runtime/core/driver/random_workload.h"
#include "tests/support/sanitizers.h"

/// Random programs against the core in virtual time. A failure names its seed:
///   SLUICE_TEST_SEED=17 core_test      runs that seed only
///   SLUICE_TEST_SEEDS=5000 core_test   runs more of them

namespace sluice::core {
namespace {

// Fewer seeds under a sanitizer, which sees in a tenth of them what it sees in all.
constexpr std::uint64_t kSeedDivisor = testing::kSlowdown > 1 ? 10 : 1;
constexpr std::uint64_t kSeeds = 400 / kSeedDivisor;
constexpr std::uint64_t kSeedsPerPolicy = 30 / kSeedDivisor;
constexpr std::uint64_t kSeedsWithPlans = 300 / kSeedDivisor;
constexpr std::uint64_t kSeedsOfMixed = 80 / kSeedDivisor;
constexpr std::uint64_t kSeedsOfManyPages = 60 / kSeedDivisor;

std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// A check that fails inside the core stops the program: say first which seed it was.
class SeedOnAbort {
 public:
  explicit SeedOnAbort(RandomWorkload* workload, const Scenario& scenario)
      : workload_(workload), text_(ToString(scenario)) {
    base::SetCheckObserver(&SeedOnAbort::Print, this);
  }
  ~SeedOnAbort() { base::SetCheckObserver(nullptr, nullptr); }

 private:
  static void Print(void* self, const char*) {
    const auto* that = static_cast<SeedOnAbort*>(self);
    std::fprintf(stderr, "%s\n%s", that->text_.c_str(), that->workload_->driver().Report().c_str());
  }

  RandomWorkload* workload_;
  std::string text_;
};

struct Totals {
  std::uint64_t events = 0;
  std::uint64_t grants = 0;
  std::uint64_t copies = 0;
  std::uint64_t deadlocks = 0;
  std::uint64_t too_large = 0;
  std::uint64_t lost = 0;
  std::uint64_t full = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t prefetch_hits = 0;
  std::uint64_t cleaned = 0;
  std::uint64_t together = 0;
};

void Add(VirtualDriver& driver, Totals* totals) {
  totals->events += driver.event_count();
  totals->grants += driver.grant_count();
  totals->copies += driver.frames().copies_started();
  totals->deadlocks += driver.failure_count(TicketFailure::kWouldDeadlock);
  totals->too_large += driver.failure_count(TicketFailure::kTooLarge);
  totals->lost += driver.failure_count(TicketFailure::kPageLost);
  totals->full += driver.failure_count(TicketFailure::kTierFull);
  totals->cancelled += driver.failure_count(TicketFailure::kCancelled);
  totals->prefetch_hits += driver.core().counters().prefetch_hit;
  totals->cleaned += driver.core().counters().cleaned;
  totals->together += driver.together_count();
}

bool RunScenario(const Scenario& scenario, Totals* totals) {
  const std::uint64_t seed = scenario.driver.seed;
  RandomWorkload workload(scenario);
  const SeedOnAbort announce(&workload, scenario);
  workload.Run();
  Add(workload.driver(), totals);
  const CoreCounters& counters = workload.driver().core().counters();
  EXPECT_EQ(counters.prefetch_issued,
            counters.prefetch_hit + counters.prefetch_late + counters.prefetch_revoked +
                counters.prefetch_wasted + counters.prefetch_open);
  EXPECT_TRUE(workload.driver().verdict().ok()) << "repeat with SLUICE_TEST_SEED=" << seed << "\n"
                                                << ToString(scenario) << "\n"
                                                << workload.driver().Report();
  return workload.driver().verdict().ok();
}

/// Runs the seed with its own policy, or with `policy`.
bool RunSeed(std::uint64_t seed, Totals* totals, const std::string& policy = "") {
  Scenario scenario = RandomScenario(seed);
  if (!policy.empty()) scenario.driver.policy = policy;
  return RunScenario(scenario, totals);
}

TEST(CorePropertyTest, RandomProgramsLoseNoByteAndNeverHang) {
  const std::uint64_t only = FromEnvironment("SLUICE_TEST_SEED", 0);
  const std::uint64_t last = only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", kSeeds);
  Totals totals;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= last; ++seed) {
    if (!RunSeed(seed, &totals)) return;
  }
  std::printf(
      "%llu events, %llu grants, %llu copies, %llu deadlocks, %llu too large, %llu lost, "
      "%llu full, %llu cancelled, %llu prefetch hits\n",
      static_cast<unsigned long long>(totals.events),
      static_cast<unsigned long long>(totals.grants),
      static_cast<unsigned long long>(totals.copies),
      static_cast<unsigned long long>(totals.deadlocks),
      static_cast<unsigned long long>(totals.too_large),
      static_cast<unsigned long long>(totals.lost),
      static_cast<unsigned long long>(totals.full),
      static_cast<unsigned long long>(totals.cancelled),
      static_cast<unsigned long long>(totals.prefetch_hits));
  if (only != 0) return;
  // The programs must reach all these events.
  EXPECT_GT(totals.grants, 10 * last);
  EXPECT_GT(totals.copies, 10 * last);
  EXPECT_GT(totals.deadlocks, 0u);
  EXPECT_GT(totals.too_large, 0u);
  EXPECT_GT(totals.lost, 0u);
  EXPECT_GT(totals.full, 0u);
  EXPECT_GT(totals.cancelled, 0u);
  EXPECT_GT(totals.prefetch_hits, 0u);
  EXPECT_GT(totals.together, 10 * last);
}

TEST(CorePropertyTest, RandomProgramsPassUnderEveryPolicy) {
  const std::uint64_t only = FromEnvironment("SLUICE_TEST_SEED", 0);
  const std::uint64_t last =
      only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", kSeedsPerPolicy);
  for (const std::string& policy : PolicyNames()) {
    Totals totals;
    for (std::uint64_t seed = only != 0 ? only : 1; seed <= last; ++seed) {
      if (!RunSeed(seed, &totals, policy)) return;
    }
  }
}

TEST(CorePropertyTest, RandomProgramsPassWithPlans) {
  const std::uint64_t only = FromEnvironment("SLUICE_TEST_SEED", 0);
  const std::uint64_t last =
      only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", kSeedsWithPlans);
  Totals totals;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= last; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.driver.policy = "planned";
    scenario.driver.clean_share = 0;
    scenario.iterations = true;
    scenario.plans = true;
    scenario.events = 2500;
    if (!RunScenario(scenario, &totals)) return;
  }
  if (only != 0) return;
  EXPECT_GT(totals.cleaned, last) << "plans are followed: nothing else cleans";
}

/// The last tier has no frames, or not enough, so that pages stay above it for good.
TEST(CorePropertyTest, RandomProgramsPassWhereTheLastTierIsTooSmall) {
  const std::uint64_t only = FromEnvironment("SLUICE_TEST_SEED", 0);
  const std::uint64_t last = only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", kSeedsOfMixed);
  Totals totals;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= last; ++seed) {
    Scenario scenario = MixedScenario(seed);
    if (!RunScenario(scenario, &totals)) return;
    scenario.driver.policy = "planned";
    scenario.iterations = true;
    scenario.plans = true;
    if (!RunScenario(scenario, &totals)) return;
  }
  if (only != 0) return;
  EXPECT_GT(totals.grants, 10 * last);
  EXPECT_GT(totals.copies, 10 * last);
}

/// Many pages of one op wait for one link, or for room in one tier.
TEST(CorePropertyTest, RandomProgramsPassWithOpsOfManyPages) {
  constexpr ScenarioSizes kLarge{.op_pages_least = 4,
                                 .op_pages_most = 40,
                                 .pages_least = 40,
                                 .pages_most = 160,
                                 .copies_in_flight_most = 4};
  const std::uint64_t only = FromEnvironment("SLUICE_TEST_SEED", 0);
  const std::uint64_t last =
      only != 0 ? only : FromEnvironment("SLUICE_TEST_SEEDS", kSeedsOfManyPages);
  Totals totals;
  for (std::uint64_t seed = only != 0 ? only : 1; seed <= last; ++seed) {
    if (!RunScenario(RandomScenario(seed, kLarge), &totals)) return;
  }
  if (only != 0) return;
  EXPECT_GT(totals.grants, 10 * last);
  EXPECT_GT(totals.copies, 100 * last);
}

/// Programs that once hung, or whose requests were refused though they could fit. Some run on four
/// tiers.
TEST(CorePropertyTest, SeedsThatOnceFailedPass) {
  Totals totals;
  for (const std::uint64_t seed : {8656, 9777, 13452, 13768, 14775, 15087, 15602}) {
    Scenario scenario = RandomScenario(seed);
    scenario.driver.together = 0;  // events alone, since they failed alone
    if (!RunScenario(scenario, &totals) || !RunSeed(seed, &totals)) return;
  }
}

}  // namespace
}  // namespace sluice::core
