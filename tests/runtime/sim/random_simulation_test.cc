#include <cstdio>
#include <memory>
#include <random>
#include <string>

#include "base/check.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/random_machine.h"
#include "tests/runtime/sim/seeds.h"
#include "tests/runtime/sim/shadow_observer.h"

/// Random schedules on random machines, held against a shadow of every byte. A failure names its
/// seed:
///   SLUICE_TEST_SEED=17 random_simulation_test      runs that seed only
///   SLUICE_TEST_SEEDS=9000 random_simulation_test   runs more of them

namespace sluice::sim {
namespace {

constexpr std::uint64_t kSeeds = 1500;
constexpr std::uint64_t kPageEvents = 1'000'000;

struct Totals {
  std::uint64_t page_events = 0;
  std::uint64_t grants = 0;
  std::uint64_t divergences = 0;
  std::uint64_t lost = 0;
  std::uint64_t ops_failed = 0;
  std::uint64_t full = 0;
  std::uint64_t prefetch_hits = 0;
  std::uint64_t prefetches_revoked = 0;
};

class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : run_(MakeRandomRun(seed)),
        shadow_(static_cast<core::TierIndex>(run_.options.machine.tiers.size()),
                run_.options.copies_in_flight_max),
        random_(seed) {
    base::SetCheckObserver(&Trial::Print, this);
  }
  ~Trial() { base::SetCheckObserver(nullptr, nullptr); }

  bool Run(Totals* totals);

 private:
  /// A check that fails inside the core stops the program: say first which seed it was.
  static void Print(void* self, const char*) {
    const auto* that = static_cast<Trial*>(self);
    std::fprintf(stderr, "%s\n", that->Describe().c_str());
  }
  std::string Describe() const { return ToString(run_) + "\n" + shadow_.Report(); }

  SimOptions Options();
  std::optional<core::FailureKind> Fault(const core::StartCopy& copy);
  void Change(std::vector<core::PageRequest>* requests);
  void Check(const SimReport& report) const;
  void CheckLinks(const SimReport& report) const;
  void Add(const SimReport& report, Totals* totals) const;

  RandomRun run_;
  ShadowObserver shadow_;
  std::mt19937_64 random_;
};

SimOptions Trial::Options() {
  SimOptions options = run_.options;
  options.policy = core::CreatePolicy(run_.policy).value();
  options.objective = run_.seed % 2 == 0 ? core::Objective::kTime : core::Objective::kTraffic;
  options.observer = &shadow_;
  if (run_.faults_per_mille > 0) {
    options.fault = [this](const core::StartCopy& copy) { return Fault(copy); };
  }
  if (run_.changes_per_mille > 0) {
    options.alter = [this](std::uint64_t, std::uint32_t, std::vector<core::PageRequest>* requests) {
      Change(requests);
    };
  }
  return options;
}

std::optional<core::FailureKind> Trial::Fault(const core::StartCopy& copy) {
  if (random_() % 1000 >= run_.faults_per_mille) return std::nullopt;
  const auto kind = static_cast<core::FailureKind>(random_() % 3);
  if (kind == core::FailureKind::kSourceLost && !shadow_.MayLoseSource(copy)) return std::nullopt;
  return kind;
}

void Trial::Change(std::vector<core::PageRequest>* requests) {
  if (random_() % 1000 < run_.changes_per_mille) ChangeRequests(run_.layout, random_(), requests);
}

bool Trial::Run(Totals* totals) {
  const SimOptions options = Options();
  const absl::StatusOr<SimReport> report = Simulate(run_.layout, options);
  EXPECT_TRUE(report.ok()) << report.status() << "\n" << Describe();
  EXPECT_TRUE(shadow_.verdict().ok()) << Describe();
  if (!report.ok() || !shadow_.verdict().ok()) return false;
  Check(*report);
  Add(*report, totals);
  return !::testing::Test::HasFailure();
}

void Trial::Check(const SimReport& report) const {
  for (const TierUse& tier : report.tiers) EXPECT_LE(tier.peak_bytes, tier.budget_bytes);
  CheckLinks(report);
  EXPECT_EQ(report.iteration_s.size(), static_cast<std::size_t>(run_.options.iterations));
  EXPECT_GE(report.stall_s, 0);
  if (run_.faults_per_mille > 0) return;
  EXPECT_EQ(report.ops_failed, 0u) << Describe();
  EXPECT_GE(report.time_s, report.compute_s - 1e-9);
  if (run_.layout.lanes.size() > 1) return;
  EXPECT_NEAR(report.time_s, report.compute_s + report.stall_s, 1e-6 * (1 + report.time_s));
}

/// What the links carried in the last iterations is what the core started in them.
void Trial::CheckLinks(const SimReport& report) const {
  const auto& moved = shadow_.moved();
  const auto steady = static_cast<std::size_t>(run_.options.iterations) / 2;
  ASSERT_EQ(moved.size(), static_cast<std::size_t>(run_.options.iterations));
  for (std::size_t link = 0; link < report.links.size(); ++link) {
    const auto& before = moved[moved.size() - steady - 1][link];
    const auto& after = moved.back()[link];
    const std::uint64_t page = run_.layout.page_bytes;
    EXPECT_EQ(report.links[link].in_bytes, (after[0] - before[0]) * page / steady);
    EXPECT_EQ(report.links[link].out_bytes, (after[1] - before[1]) * page / steady);
    EXPECT_LE(report.links[link].busy_in_s, report.time_s * (1 + 1e-9));
    EXPECT_LE(report.links[link].busy_out_s, report.time_s * (1 + 1e-9));
  }
}

void Trial::Add(const SimReport& report, Totals* totals) const {
  totals->page_events += report.page_events;
  totals->grants += shadow_.grants();
  totals->divergences += report.counters.divergences;
  totals->lost += shadow_.pages_lost();
  totals->ops_failed += report.ops_failed;
  totals->full += shadow_.failures(core::TicketFailure::kTierFull);
  totals->prefetch_hits += report.counters.prefetch_hit;
  totals->prefetches_revoked += report.counters.prefetch_revoked;
}

TEST(RandomSimulationTest, NoScheduleLosesAByteOrHangs) {
  const Seeds seeds(kSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const auto trial = std::make_unique<Trial>(seed);
    ASSERT_TRUE(trial->Run(&totals)) << "repeat with SLUICE_TEST_SEED=" << seed;
  }
  std::printf(
      "%s",
      fmt::format(
          "seeds 1 to {}: {} page events, {} grants, {} divergences, {} pages lost, {} ops "
          "failed, {} of them as a tier was full, {} prefetch hits, {} prefetches revoked\n",
          seeds.last,
          totals.page_events,
          totals.grants,
          totals.divergences,
          totals.lost,
          totals.ops_failed,
          totals.full,
          totals.prefetch_hits,
          totals.prefetches_revoked)
          .c_str());
  if (seeds.only != 0) return;
  EXPECT_GE(totals.page_events, kPageEvents * seeds.last / kSeeds);
  // The runs reach what they are there to reach.
  EXPECT_GT(totals.divergences, 0u);
  EXPECT_GT(totals.lost, 0u);
  EXPECT_GT(totals.full, 0u);
  EXPECT_GT(totals.prefetch_hits, 0u);
  EXPECT_GT(totals.prefetches_revoked, 0u);
}

}  // namespace
}  // namespace sluice::sim
