#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "runtime/analysis/bounds/time_bound.h"
#include "runtime/sim/facts/machine_bound.h"
#include "runtime/sim/schedule/recorded_schedule.h"
#include "tests/runtime/sim/simulator/random_machine.h"
#include "tests/runtime/sim/simulator/seeds.h"
#include "tests/support/sanitizers.h"

/// Random schedules on random machines, under every policy, held against the bound on their time. A
/// failure names its seed:
///   SLUICE_TEST_SEED=17 sim_test      runs that seed only
///   SLUICE_TEST_SEEDS=9000 sim_test   runs more of them

namespace sluice::sim {
namespace {

constexpr std::uint64_t kSeeds = 2000;
/// Fewer seeds under a sanitizer, which looks for other things and takes ten times as long.
constexpr std::uint64_t kSeedsHere = testing::kSlowdown > 1 ? kSeeds / 10 : kSeeds;
constexpr int kIterations = 7;
constexpr double kRounding = 1e-9;

/// Begin of the first op and end of the last, for each iteration.
class Spans : public SimObserver {
 public:
  explicit Spans(std::size_t ops) : ops_(ops) {}

  void OnOp(const SimOpRun& run) override {
    if (seen_++ % ops_ == 0) spans_.push_back({run.begin_s, run.end_s});
    spans_.back().begin_s = std::min(spans_.back().begin_s, run.begin_s);
    spans_.back().end_s = std::max(spans_.back().end_s, run.end_s);
  }

  std::size_t iterations() const { return spans_.size(); }
  /// Seconds from the first op of iteration `first` to the last op of the `count`-th from there.
  double Seconds(std::size_t first, std::size_t count) const {
    return spans_[first + count - 1].end_s - spans_[first].begin_s;
  }

 private:
  const std::size_t ops_;
  std::size_t seen_ = 0;
  std::vector<OpTime> spans_;
};

/// time / bound of one policy, over the runs that are not bound by compute.
struct Quality {
  double ratio_sum = 0;
  double log_sum = 0;
  int runs = 0;

  void Add(double ratio) {
    ratio_sum += ratio;
    log_sum += std::log(ratio);
    ++runs;
  }
  double mean() const { return ratio_sum / runs; }
  double geometric_mean() const { return std::exp(log_sum / runs); }
};

using Qualities = std::map<std::string, Quality>;

class BoundTrial {
 public:
  explicit BoundTrial(RandomRun run) : run_(std::move(run)) {
    const Schedule schedule = ToSchedule(run_.schedule, run_.layout.page_bytes);
    const Machine& machine = run_.options.machine;
    bound_ = ComputeTimeBound(schedule, TimeBoundOptionsFor(machine, schedule));
    compute_s_ = ComputeSeconds(run_.layout);
    run_.options.iterations = kIterations;
  }

  /// Whether something else than compute bounds it.
  bool MovesBind() const { return bound_.bound_s > compute_s_ * (1 + kRounding); }

  void Run(const std::string& policy, Quality* quality) {
    Spans spans(run_.layout.ops.size());
    run_.options.policy = core::CreatePolicy(policy).value();
    run_.options.observer = &spans;
    const auto report = Simulate(run_.layout, run_.options);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->ops_failed, 0u);
    CheckSpans(spans);
    if (!MovesBind()) return;
    quality->Add(report->time_s / bound_.bound_s);
  }

 private:
  /// Tensors have no content before the first iteration, so that one counts for nothing.
  void CheckSpans(const Spans& spans) const {
    ASSERT_EQ(spans.iterations(), static_cast<std::size_t>(kIterations));
    for (std::size_t count = 1; count < spans.iterations(); ++count) {
      const double least = std::max(bound_.LeastSeconds(static_cast<int>(count)),
                                    static_cast<double>(count) * compute_s_);
      for (std::size_t first = 1; first + count <= spans.iterations(); ++first) {
        ASSERT_GE(spans.Seconds(first, count), least * (1 - kRounding))
            << count << " iterations from iteration " << first << " on";
      }
    }
  }

  RandomRun run_;
  analysis::TimeBound bound_;
  double compute_s_ = 0;
};

/// One policy is enough if compute binds, since only the ops' own time shows then.
void RunPolicies(RandomRun run, Qualities* qualities) {
  const std::uint64_t seed = run.seed;
  BoundTrial trial(std::move(run));
  std::vector<std::string> policies = core::PolicyNames();
  if (!trial.MovesBind()) policies = {policies[seed % policies.size()]};
  for (const std::string& policy : policies) {
    trial.Run(policy, &(*qualities)[policy]);
    ASSERT_FALSE(::testing::Test::HasFailure())
        << policy << "; repeat with SLUICE_TEST_SEED=" << seed;
  }
}

/// Prints rows of docs/results/bounds.jsonl.
void Print(const char* name, const Qualities& qualities) {
  std::string text;
  for (const auto& [policy, quality] : qualities) {
    if (quality.runs == 0) continue;
    text += fmt::format(
        "{{\"case\":\"{}/{}\",\"mean_time_over_bound\":{:.3f},"
        "\"geometric_mean\":{:.3f},\"runs\":{}}}\n",
        name,
        policy,
        quality.mean(),
        quality.geometric_mean(),
        quality.runs);
  }
  std::printf("%s", text.c_str());
}

/// Bars of the planned policy, which may not become worse. Machines with hardly a frame to spare
/// are hard on policies that look ahead, so the figures are modest.
void JudgePlanned(Qualities& qualities) {
  const Quality& planned = qualities["planned"];
  const Quality& min = qualities["min"];
  const Quality& lru = qualities["lru"];
  ASSERT_GT(planned.runs, 500);
  EXPECT_LT(planned.mean(), 1.00 * min.mean());
  EXPECT_LT(planned.mean(), 0.92 * lru.mean());
  EXPECT_LT(planned.geometric_mean(), 1.01 * min.geometric_mean());
  EXPECT_LT(planned.geometric_mean(), 0.97 * lru.geometric_mean());
}

TEST(RandomBoundTest, NoPolicyIsFasterThanTheBoundAndPlannedIsNotBehind) {
  const Seeds seeds(kSeedsHere);
  Qualities qualities;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    RunPolicies(MakeRandomRun(seed), &qualities);
    if (HasFatalFailure()) return;
  }
  Print("simulator", qualities);
  if (seeds.only == 0 && seeds.last >= kSeeds) JudgePlanned(qualities);
}

TEST(RandomBoundTest, NoPolicyIsFasterThanTheBoundOverSeveralPaths) {
  const Seeds seeds(kSeedsHere / 2);
  Qualities qualities;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    RandomRun run = MakeRandomRun(seed);
    AddRandomPaths(&run);
    RunPolicies(std::move(run), &qualities);
    if (HasFatalFailure()) return;
  }
  Print("simulator, several paths", qualities);
  if (seeds.only != 0) return;
  EXPECT_GT(qualities["planned"].runs, static_cast<int>(kSeedsHere / 10));
}

/// Bytes over all links per iteration, under plans for the objective.
double PlannedBytes(std::uint64_t seed, core::Objective objective) {
  RandomRun run = MakeRandomRun(seed);
  run.options.iterations = kIterations;
  run.options.policy = core::CreatePolicy("planned").value();
  run.options.objective = objective;
  const auto report = Simulate(run.layout, run.options);
  EXPECT_TRUE(report.ok()) << report.status() << "; repeat with SLUICE_TEST_SEED=" << seed;
  if (!report.ok()) return 0;
  EXPECT_EQ(report->ops_failed, 0u) << seed;
  double bytes = 0;
  for (const LinkUse& link : report->links) {
    bytes += static_cast<double>(link.in_bytes + link.out_bytes);
  }
  return bytes;
}

/// A plan for traffic may move more on a single machine with hardly a frame to spare. The lab takes
/// the better plan.
TEST(RandomTrafficTest, PlansForTrafficMoveLessOnTheWhole) {
  const Seeds seeds(kSeedsHere / 4);
  double time = 0;
  double traffic = 0;
  int worse = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const double usual = PlannedBytes(seed, core::Objective::kTime);
    const double saving = PlannedBytes(seed, core::Objective::kTraffic);
    time += usual;
    traffic += saving;
    worse += saving > usual;
  }
  const auto runs = static_cast<int>(seeds.last - seeds.first + 1);
  std::printf(
      "traffic / that of plans for time: %.3f, more in %d of %d\n", traffic / time, worse, runs);
  if (seeds.only != 0) return;
  EXPECT_LT(traffic, 0.95 * time);
  EXPECT_LT(worse, runs / 4);
}

}  // namespace
}  // namespace sluice::sim
