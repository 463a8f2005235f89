#include "runtime/analysis/recompute/recompute.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::analysis {
namespace {

using ::testing::DoubleEq;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr Relief kKeep = Relief::kKeep;
constexpr Relief kOffload = Relief::kOffload;
constexpr Relief kRecompute = Relief::kRecompute;

/// Layers of 10 bytes that take 1 s to make again; the first one written is read last.
RecomputeProblem FourLayers(double seconds_per_byte, double excess_bytes) {
  RecomputeProblem problem{.write_seconds = 4, .read_seconds = 8};
  for (const double idle : {11.0, 8.0, 5.0, 2.0}) {
    problem.candidates.push_back({.bytes = 10, .recompute_seconds = 1, .idle_seconds = idle});
  }
  problem.links.push_back({.in_seconds = seconds_per_byte,
                           .out_seconds = seconds_per_byte,
                           .excess_bytes = excess_bytes});
  return problem;
}

TEST(RecomputeTest, TensorsThatFitAreKept) {
  const RecomputePlan plan = PlanRecompute(FourLayers(1, 0));
  EXPECT_THAT(plan.reliefs, Each(kKeep));
  EXPECT_DOUBLE_EQ(plan.seconds, 12);
}

TEST(RecomputeTest, HiddenTransfersAreOffloadedTheLongestIdleFirst) {
  EXPECT_THAT(PlanRecompute(FourLayers(0.01, 15)).reliefs,
              ElementsAre(kOffload, kOffload, kKeep, kKeep));
  const RecomputePlan plan = PlanRecompute(FourLayers(0.01, 100));
  EXPECT_THAT(plan.reliefs, Each(kOffload)) << "what is too much is moved as far as it helps";
  EXPECT_DOUBLE_EQ(plan.seconds, 12);
  EXPECT_THAT(plan.link_seconds, ElementsAre(DoubleEq(0.8)));
}

TEST(RecomputeTest, AFullLinkLeavesTheRestToRecomputing) {
  // 4 s each way per layer: one is out when the last is written. Another one would add 4 s, made
  // again it adds 1 s.
  const RecomputePlan plan = PlanRecompute(FourLayers(0.4, 40));
  EXPECT_THAT(plan.reliefs, ElementsAre(kOffload, kRecompute, kRecompute, kRecompute));
  EXPECT_DOUBLE_EQ(plan.seconds, 15);
  EXPECT_THAT(plan.link_seconds, ElementsAre(DoubleEq(8)));
}

TEST(RecomputeTest, TensorsThatAreDearToMakeAgainWaitForTheLink) {
  RecomputeProblem problem = FourLayers(0.4, 40);
  for (RecomputeCandidate& candidate : problem.candidates) candidate.recompute_seconds = 20;
  problem.candidates[1].recompute_seconds = 0.25;
  EXPECT_THAT(PlanRecompute(problem).reliefs,
              ElementsAre(kOffload, kRecompute, kOffload, kOffload));
}

TEST(RecomputeTest, ARoundTripLongerThanItsIdleTimeIsNotHidden) {
  // 1 s there and 1 s back; the last layer is idle for 1 s.
  RecomputeProblem problem = FourLayers(0.1, 40);
  problem.candidates.back().idle_seconds = 1;
  problem.candidates.back().recompute_seconds = 0.5;
  EXPECT_THAT(PlanRecompute(problem).reliefs,
              ElementsAre(kOffload, kOffload, kOffload, kRecompute));
  problem.candidates.back().recompute_seconds = 1.5;
  const RecomputePlan waits = PlanRecompute(problem);
  EXPECT_THAT(waits.reliefs, Each(kOffload));
  EXPECT_DOUBLE_EQ(waits.seconds, 13);
}

TEST(RecomputeTest, OtherTransfersOfALinkTakeItsTime) {
  RecomputeProblem problem = FourLayers(0.1, 40);
  EXPECT_THAT(PlanRecompute(problem).reliefs, Each(kOffload));
  problem.links.front().in_bytes = 120;
  const RecomputePlan plan = PlanRecompute(problem);
  // The link is busy for all of the 8 s. Offloading a layer adds 1 s to that, and behind that hides
  // the making of another one.
  EXPECT_EQ(std::count(plan.reliefs.begin(), plan.reliefs.end(), kRecompute), 2);
  EXPECT_DOUBLE_EQ(plan.seconds, 4 + 10);
}

TEST(RecomputeTest, EveryLinkWithExcessIsCrossed) {
  RecomputeProblem problem = FourLayers(0.01, 40);
  problem.links.push_back({.both_seconds = 0.5, .excess_bytes = 20});
  const RecomputePlan plan = PlanUniform(problem, kOffload);
  EXPECT_THAT(plan.reliefs, Each(kOffload));
  EXPECT_THAT(plan.link_seconds, ElementsAre(DoubleEq(0.8), DoubleEq(20)));
  EXPECT_DOUBLE_EQ(plan.seconds, 10 + 10);
  EXPECT_THAT(PlanUniform(problem, kRecompute).link_seconds, ElementsAre(0, 0));
  EXPECT_LT(PlanRecompute(problem).seconds, 16);
}

TEST(RecomputeTest, NothingToDecideIsDecided) {
  EXPECT_THAT(PlanRecompute({}).reliefs, ElementsAre());
  RecomputeProblem empty = FourLayers(1, 40);
  empty.candidates = {{}, {}};
  EXPECT_DOUBLE_EQ(PlanRecompute(empty).seconds, 12);
  empty.write_seconds = empty.read_seconds = 0;
  EXPECT_DOUBLE_EQ(PlanRecompute(empty).seconds, 0);
}

RecomputeProblem RandomProblem(std::mt19937_64& random) {
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  RecomputeProblem problem{.write_seconds = draw(1, 10), .read_seconds = draw(1, 10)};
  const int count = static_cast<int>(draw(1, 9));
  for (int i = 0; i < count; ++i) {
    problem.candidates.push_back(
        {.bytes = draw(1, 10), .recompute_seconds = draw(0, 3), .idle_seconds = draw(0, 20)});
  }
  for (int i = static_cast<int>(draw(1, 3)); i > 0; --i) {
    problem.links.push_back({.in_seconds = draw(0, 0.6),
                             .out_seconds = draw(0, 0.6),
                             .both_seconds = draw(0, 0.5),
                             .in_bytes = draw(0, 20),
                             .out_bytes = draw(0, 20),
                             .excess_bytes = 1000});
  }
  return problem;
}

/// Seconds of an iteration whose candidates all leave, but those recomputed: candidate i if bit i
/// of `recomputed` is set.
double SecondsOf(const RecomputeProblem& problem, unsigned recomputed) {
  double write = problem.write_seconds, read = problem.read_seconds, exposed = 0, bytes = 0;
  const double share = write / (write + read);
  for (std::size_t i = 0; i < problem.candidates.size(); ++i) {
    const RecomputeCandidate& candidate = problem.candidates[i];
    if ((recomputed >> i & 1u) != 0) {
      read += candidate.recompute_seconds;
      continue;
    }
    bytes += candidate.bytes;
    double there_and_back = 0;
    for (const RecomputeLink& link : problem.links) {
      there_and_back =
          std::max(there_and_back, candidate.bytes * (link.in_seconds + link.out_seconds));
    }
    exposed += std::max(0.0, there_and_back - candidate.idle_seconds);
  }
  const auto busy = [](const RecomputeLink& link, double in, double out) {
    return std::max({in * link.in_seconds, out * link.out_seconds, (in + out) * link.both_seconds});
  };
  for (const RecomputeLink& link : problem.links) {
    write = std::max(write, busy(link, share * link.in_bytes, share * link.out_bytes + bytes));
    const double rest = 1 - share;
    read = std::max(read, busy(link, rest * link.in_bytes + bytes, rest * link.out_bytes));
  }
  return write + read + exposed;
}

TEST(RecomputeTest, RandomPlansAreCloseToTheBestOfAllAndNeverWorseThanUniformOnes) {
  constexpr int kSeeds = 500;
  double worst = 1, sum = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RecomputeProblem problem = RandomProblem(random);
    const RecomputePlan plan = PlanRecompute(problem);
    unsigned chosen = 0;
    for (std::size_t i = 0; i < plan.reliefs.size(); ++i) {
      ASSERT_NE(plan.reliefs[i], kKeep);
      if (plan.reliefs[i] == kRecompute) chosen |= 1u << i;
    }
    EXPECT_NEAR(plan.seconds, SecondsOf(problem, chosen), 1e-9);
    const unsigned all = (1u << problem.candidates.size()) - 1;
    EXPECT_LE(plan.seconds, SecondsOf(problem, 0) + 1e-9);
    EXPECT_LE(plan.seconds, SecondsOf(problem, all) + 1e-9);
    double best = plan.seconds;
    for (unsigned i = 0; i <= all; ++i) best = std::min(best, SecondsOf(problem, i));
    worst = std::max(worst, plan.seconds / best);
    sum += plan.seconds / best;
  }
  EXPECT_LT(worst, 1.3);
  EXPECT_LT(sum / kSeeds, 1.03);
}

}  // namespace
}  // namespace sluice::analysis
