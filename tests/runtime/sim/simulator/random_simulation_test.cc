#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/simulator/random_machine.h"
#include "tests/runtime/sim/simulator/seeds.h"
#include "tests/runtime/sim/simulator/shadow_observer.h"

/// Random schedules on random machines, held against a shadow of every byte. A failure names its
/// seed:
///   SLUICE_TEST_SEED=17 sim_test      runs that seed only
///   SLUICE_TEST_SEEDS=9000 sim_test   runs more of them

namespace sluice::sim {
namespace {

constexpr std::uint64_t kMachineSeeds = 1500;
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

/// The totals of a link are those of its paths.
void CheckPaths(const SimReport& report) {
  for (const LinkUse& link : report.links) {
    const std::uint64_t lost = link.paths.size();  // each mean is rounded down
    std::uint64_t in = 0;
    std::uint64_t out = 0;
    for (const PathUse& path : link.paths) {
      in += path.in_bytes;
      out += path.out_bytes;
      EXPECT_LE(std::max(path.busy_in_s, path.busy_out_s), report.time_s * (1 + 1e-9));
    }
    EXPECT_LE(in, link.in_bytes);
    EXPECT_GE(in + lost, link.in_bytes);
    EXPECT_LE(out, link.out_bytes);
    EXPECT_GE(out + lost, link.out_bytes);
  }
}

class Trial {
 public:
  explicit Trial(RandomRun run)
      : run_(std::move(run)),
        shadow_(run_.core_tiers, run_.options.copies_in_flight_max),
        random_(run_.seed) {
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
  const auto kind = static_cast<core::FailureKind>(random_() % 4);
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
  CheckPaths(report);
  EXPECT_EQ(report.iteration_s.size(), static_cast<std::size_t>(run_.options.iterations));
  EXPECT_GE(report.stall_s, 0);
  if (run_.faults_per_mille > 0) return;
  EXPECT_EQ(report.ops_failed, 0u) << Describe();
  EXPECT_GE(report.time_s, report.compute_s - 1e-9);
  if (run_.layout.lanes.size() > 1) return;
  EXPECT_NEAR(report.time_s, report.compute_s + report.stall_s, 1e-6 * (1 + report.time_s));
}

/// Checks that the links carried in the last iterations what the core started in them.
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
  const Seeds seeds(kMachineSeeds);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const auto trial = std::make_unique<Trial>(MakeRandomRun(seed));
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
  EXPECT_GE(totals.page_events, kPageEvents * seeds.last / kMachineSeeds);
  // The runs must reach all these events.
  EXPECT_GT(totals.divergences, 0u);
  EXPECT_GT(totals.lost, 0u);
  EXPECT_GT(totals.full, 0u);
  EXPECT_GT(totals.prefetch_hits, 0u);
  EXPECT_GT(totals.prefetches_revoked, 0u);
}

TEST(RandomSimulationTest, NoScheduleOverSeveralPathsLosesAByteOrHangs) {
  const Seeds seeds(kMachineSeeds / 3);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    RandomRun run = MakeRandomRun(seed);
    AddRandomPaths(&run);
    const auto trial = std::make_unique<Trial>(std::move(run));
    ASSERT_TRUE(trial->Run(&totals)) << "repeat with SLUICE_TEST_SEED=" << seed;
  }
  if (seeds.only != 0) return;
  EXPECT_GT(totals.prefetch_hits, 0u);
  EXPECT_GT(totals.lost, 0u);
}

/// Checks that a page from a frame of the lowest tier takes the path over which it went there.
class PathWatch final : public SimObserver {
 public:
  explicit PathWatch(std::size_t lowest) : lowest_(lowest) {}

  void OnAction(const core::Action& action, double) override {
    const auto* copy = std::get_if<core::StartCopy>(&action);
    if (copy != nullptr) copies_[copy->task] = *copy;
  }
  void OnTransfer(std::size_t link, const SimTransfer& transfer) override {
    const auto copy = copies_.find(transfer.task);
    if (link + 1 != lowest_ || copy == copies_.end()) return;
    if (copy->second.target == lowest_) {
      path_of_frame_[copy->second.target_frame] = transfer.path;
    } else {
      const auto way = path_of_frame_.find(copy->second.source_frame);
      ++came_back_;
      strayed_ += way == path_of_frame_.end() || way->second != transfer.path;
    }
  }

  int came_back() const { return came_back_; }
  int strayed() const { return strayed_; }

 private:
  const std::size_t lowest_;
  std::map<core::TaskNumber, core::StartCopy> copies_;
  std::map<core::FrameIndex, std::size_t> path_of_frame_;
  int came_back_ = 0;
  int strayed_ = 0;
};

TEST(RandomSimulationTest, PagesComeBackFromTheDriveThatTheyWentTo) {
  const Seeds seeds(kMachineSeeds / 5);
  int from_drives = 0;
  int strayed_in_memory = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    RandomRun run = MakeRandomRun(seed);
    AddRandomPaths(&run);
    const std::vector<MachineTier>& tiers = run.options.machine.tiers;
    PathWatch watch(tiers.size() - 1);
    run.options.policy = core::CreatePolicy(run.policy).value();
    run.options.observer = &watch;
    ASSERT_TRUE(Simulate(run.layout, run.options).ok()) << seed;
    if (tiers.back().kind != TierKind::kNvme) {
      strayed_in_memory += watch.strayed();
      continue;
    }
    from_drives += watch.came_back();
    ASSERT_EQ(watch.strayed(), 0) << "repeat with SLUICE_TEST_SEED=" << seed;
  }
  if (seeds.only != 0) return;
  EXPECT_GT(from_drives, 100);
  EXPECT_GT(strayed_in_memory, 100);
}

}  // namespace
}  // namespace sluice::sim
