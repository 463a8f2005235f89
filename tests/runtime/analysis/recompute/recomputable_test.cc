#include "runtime/analysis/recompute/recomputable.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/analysis/recompute/recompute_problem.h"

namespace sluice::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr AccessMode kRead = AccessMode::kRead;
constexpr AccessMode kMake = AccessMode::kOverwrite;

/// Tensors of a page that are discarded after their last op, but for `weight`.
class Builder {
 public:
  explicit Builder(std::uint32_t tensors) {
    schedule_.page_bytes = 100;
    for (std::uint32_t i = 0; i < tensors; ++i) {
      schedule_.tensors.push_back({.bytes = 100, .segment = i});
    }
  }

  /// Adds an op that reads tensors, and makes others. Each of `makes` has the seconds of making it
  /// again.
  Builder& Op(std::vector<std::uint32_t> reads,
              std::vector<std::pair<std::uint32_t, std::optional<double>>> makes = {},
              double seconds = 1) {
    ScheduleOp op{.lane = "gpu", .seconds = seconds};
    for (const std::uint32_t tensor : reads) {
      op.accesses.push_back({tensor, {0, 100}, kRead, kHbm0});
    }
    for (const auto& [tensor, again] : makes) {
      op.accesses.push_back({tensor, {0, 100}, kMake, kHbm0, again});
    }
    schedule_.ops.push_back(std::move(op));
    return *this;
  }
  ScheduleOp& last() { return schedule_.ops.back(); }
  Schedule& schedule() { return schedule_; }

  Schedule Build(std::uint32_t persistent = 0) {
    std::vector<bool> done(schedule_.tensors.size());
    for (std::uint32_t i = 0; i < persistent; ++i) done[i] = true;
    for (std::size_t op = schedule_.ops.size(); op-- > 0;) {
      for (const ScheduleAccess& access : schedule_.ops[op].accesses) {
        if (done[access.tensor]) continue;
        done[access.tensor] = true;
        schedule_.ops[op].discards.push_back({access.tensor, kWholeTensor, kMake, {}});
      }
    }
    return schedule_;
  }

 private:
  Schedule schedule_;
};

/// A weight (0), an activation (1) that forward (op 0) makes of it and backward (op 4) reads.
Builder OneActivation() {
  Builder builder(4);
  builder.Op({0}, {{1, 0.5}}).Op({1}).Op({2}, {{2, {}}}, 3).Op({}, {}, 2).Op({0, 1}).Op({0});
  return builder;
}

std::vector<std::uint32_t> TensorsOf(const Schedule& schedule) {
  std::vector<std::uint32_t> tensors;
  for (const Recomputable& one : FindRecomputable(schedule)) tensors.push_back(one.tensor);
  return tensors;
}

TEST(RecomputableTest, ATensorIsAwayInItsLongestGap) {
  EXPECT_THAT(FindRecomputable(OneActivation().Build(1)),
              ElementsAre(Recomputable{.tensor = 1,
                                       .writer = 0,
                                       .last_use = 1,
                                       .next_use = 4,
                                       .bytes = 100,
                                       .recompute_seconds = 0.5,
                                       .idle_seconds = 5}));
}

TEST(RecomputableTest, WithoutACostNothingIsMadeAgain) {
  Builder builder = OneActivation();
  builder.schedule().ops[0].accesses[1].recompute_seconds.reset();
  EXPECT_THAT(TensorsOf(builder.Build(1)), IsEmpty());
}

TEST(RecomputableTest, SourcesMustBeThereUnchanged) {
  Builder overwritten = OneActivation();
  overwritten.schedule().ops[3].accesses.push_back({0, {50, 10}, AccessMode::kReadWrite, kHbm0});
  EXPECT_THAT(TensorsOf(overwritten.Build(1)), IsEmpty());
  Builder later = OneActivation();
  later.schedule().ops[4].accesses.push_back({0, {50, 10}, AccessMode::kReadWrite, kHbm0});
  EXPECT_THAT(TensorsOf(later.Build(1)), ElementsAre(1)) << "it is made again before op 4";

  Builder discarded = OneActivation();
  discarded.schedule().ops[3].discards.push_back({0, {0, 10}, kMake, {}});
  EXPECT_THAT(TensorsOf(discarded.Build(1)), IsEmpty());
  Builder freed = OneActivation();
  freed.schedule().ops[4].accesses.erase(freed.schedule().ops[4].accesses.begin());
  freed.schedule().ops[5].accesses.clear();
  EXPECT_THAT(TensorsOf(freed.Build(0)), IsEmpty()) << "the weight ends with op 0";
}

TEST(RecomputableTest, TheContentIsOneOverwriteOfTheWhole) {
  Builder part = OneActivation();
  part.schedule().ops[0].accesses[1].range = {0, 99};
  EXPECT_THAT(TensorsOf(part.Build(1)), IsEmpty());
  Builder adds = OneActivation();
  adds.schedule().ops[0].accesses[1].mode = AccessMode::kReadWrite;
  EXPECT_THAT(TensorsOf(adds.Build(1)), IsEmpty());
  Builder changed = OneActivation();
  changed.schedule().ops[1].accesses.push_back({1, {0, 1}, AccessMode::kReadWrite, kHbm0});
  EXPECT_THAT(TensorsOf(changed.Build(1)), IsEmpty());
  Builder dead = OneActivation();
  dead.schedule().ops[4].accesses[1].mode = kMake;
  EXPECT_THAT(TensorsOf(dead.Build(1)), IsEmpty()) << "op 4 needs no old content";
}

TEST(RecomputableTest, PersistentTensorsAndThoseOfSeveralLanesStay) {
  EXPECT_THAT(TensorsOf(OneActivation().Build(2)), IsEmpty());
  Builder lanes = OneActivation();
  lanes.schedule().ops[1].lane = "cpu";
  EXPECT_THAT(TensorsOf(lanes.Build(1)), IsEmpty());
}

TEST(RecomputableTest, SharedBytesAreLeftAlone) {
  Builder itself = OneActivation();
  itself.schedule().tensors[3] = {.bytes = 10, .segment = 1, .segment_offset = 99};
  EXPECT_THAT(TensorsOf(itself.Build(1)), IsEmpty());
  itself.schedule().tensors[3].segment_offset = 100;
  EXPECT_THAT(TensorsOf(itself.Build(1)), ElementsAre(1));
  Builder input = OneActivation();
  input.schedule().tensors[3] = {.bytes = 10, .segment = 0, .segment_offset = 0};
  EXPECT_THAT(TensorsOf(input.Build(1)), IsEmpty());
}

/// Two layers: tensor 1 is made of 0, tensor 2 of 1. Tensor 1 is used after tensor 2.
Schedule Chain(double first_seconds, double second_seconds) {
  Builder builder(3);
  builder.Op({0}, {{1, first_seconds}}).Op({1}, {{2, second_seconds}}).Op({}, {}, 4);
  builder.Op({0, 2}).Op({0, 1});
  return builder.Build(1);
}

TEST(RecomputableTest, TheCheaperOfTwoThatExcludeEachOtherIsTaken) {
  EXPECT_THAT(TensorsOf(Chain(1, 2)), ElementsAre(1));
  EXPECT_THAT(TensorsOf(Chain(2, 1)), ElementsAre(2));
}

TEST(RecomputableTest, AChainIsMadeAgainWhereItsBeginIsNeededNoLater) {
  Builder builder(3);
  builder.Op({0}, {{1, 1}}).Op({1}, {{2, 1}}).Op({}, {}, 4).Op({0, 1, 2}).Op({0, 1});
  const std::vector<Recomputable> found = FindRecomputable(builder.Build(1));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].tensor, 1u) << "made again first";
  EXPECT_EQ(found[1].tensor, 2u);
  EXPECT_EQ(found[0].next_use, found[1].next_use);
}

TEST(RecomputableTest, TheLargestByteSecondsOfTooManyStay) {
  Builder builder(4);
  builder.Op({0}, {{1, 1}}).Op({0}, {{2, 1}}).Op({0}, {{3, 1}});
  builder.Op({3}).Op({2}).Op({1}).Op({0});
  const Schedule schedule = builder.Build(1);
  EXPECT_THAT(TensorsOf(schedule), ElementsAre(2, 1)) << "3 is used by the next op";
  const std::vector<Recomputable> one = FindRecomputable(schedule, 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].tensor, 1u);
}

TEST(RecomputableTest, OtherTensorsThatAnOpWritesExcludeNothing) {
  // Tensor 1 is away for longer than 2. Tensor 2 is not made of it, so both can be made again.
  Builder builder(3);
  builder.Op({0}, {{1, 1}, {2, 1}}).Op({}, {}, 4).Op({0, 2}).Op({0, 1});
  EXPECT_THAT(TensorsOf(builder.Build(1)), ElementsAre(2, 1));
}

TEST(RecomputableTest, WritersWithoutEndAreNotLookedAt) {
  constexpr std::uint32_t kOutputs = 64;
  Builder builder(kOutputs + 1);
  std::vector<std::uint32_t> outputs;
  builder.Op({0});
  ScheduleOp& op = builder.schedule().ops[0];
  op.accesses.resize(kRecomputableAccessesMax / 4, op.accesses[0]);
  for (std::uint32_t i = 1; i <= kOutputs; ++i) {
    op.accesses.push_back({i, {0, 100}, kMake, kHbm0, 1.0});
    outputs.push_back(i);
  }
  outputs.push_back(0);
  builder.Op({}, {}, 4).Op(outputs);
  EXPECT_EQ(TensorsOf(builder.Build(1)).size(), 3u) << "more would be over the bound";
}

/// Options with room for `pages` pages of 100 bytes above a slow link.
TimeBoundOptions OnePageAbove(std::uint64_t pages) {
  return {.tiers = {TierKind::kHbm, TierKind::kDram},
          .tier_bytes = {pages * 100, 0},
          .links = {{.in_bytes_per_s = 10, .out_bytes_per_s = 20, .both_bytes_per_s = 25}}};
}

TEST(RecomputeProblemTest, TellsWhatMovesWithAndWithoutTheCandidates) {
  // The weight and the tensors that the ops between use fill both pages.
  Builder builder(4);
  builder.Op({0}, {{1, 0.5}}).Op({0}, {{2, {}}}, 6).Op({0, 2}).Op({0, 1});
  const Schedule schedule = builder.Build(1);
  const std::vector<Recomputable> found = FindRecomputable(schedule);
  ASSERT_EQ(found.size(), 1u);
  const RecomputeProblem problem = MakeRecomputeProblem(schedule, found, OnePageAbove(2));
  EXPECT_DOUBLE_EQ(problem.write_seconds, 1);
  EXPECT_DOUBLE_EQ(problem.read_seconds, 8);
  ASSERT_EQ(problem.links.size(), 1u);
  const RecomputeLink& link = problem.links[0];
  EXPECT_DOUBLE_EQ(link.in_seconds, 0.1);
  EXPECT_DOUBLE_EQ(link.out_seconds, 0.05);
  EXPECT_DOUBLE_EQ(link.both_seconds, 0.04);
  EXPECT_NEAR(link.excess_bytes, 100, 5) << "a bound per iteration of many";
  EXPECT_DOUBLE_EQ(link.out_bytes, 0);
  EXPECT_THAT(PlanRecompute(problem).reliefs, ElementsAre(Relief::kRecompute));
  EXPECT_THAT(PlanRecompute(MakeRecomputeProblem(schedule, found, OnePageAbove(3))).reliefs,
              ElementsAre(Relief::kKeep));
}

}  // namespace
}  // namespace sluice::analysis
