#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/sim/schedule/recorded_schedule.h"

namespace sluice::sim {
namespace {

/// A weight, an input, an activation; two small tensors in one segment.
FileSchedule TwoFileOps() {
  FileSchedule file{.name = "test", .key = "train"};
  file.tensors = {{.id = 7, .name = "weight", .bytes = 100, .persistent = true},
                  {.id = 8, .name = "input", .bytes = 50},
                  {.id = 9, .name = "activation", .bytes = 60, .kind = TensorKind::kActivation},
                  {.id = 3, .name = "bias", .bytes = 8, .persistent = true, .segment = 40},
                  {.id = 4, .name = "scale", .bytes = 8, .segment = 40, .segment_offset = 8}};
  file.ops = {{.name = "forward",
               .seconds = 0.5,
               .exceptions = {{3, kDram0}},
               .reads = {{0, {0, 100}}, {1, {0, 50}}, {3, {0, 4}}},
               .writes = {{2, {0, 60}}}},
              {.name = "update",
               .lane = "cpu",
               .seconds = 0.25,
               .tier = kDram0,
               .reads = {{0, {16, 8}}, {1, {0, 50}}, {2, {0, 60}}},
               .writes = {{0, {16, 8}}, {0, {32, 8}}, {4, {0, 8}}}}};
  return file;
}

using Row = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, AccessMode, TierId>;

std::vector<Row> Rows(const std::vector<ScheduleAccess>& accesses) {
  std::vector<Row> rows;
  for (const ScheduleAccess& access : accesses) {
    rows.emplace_back(
        access.tensor, access.range.offset, access.range.bytes, access.mode, access.tier);
  }
  return rows;
}

TEST(ToScheduleTest, OpsKeepOrderLaneSecondsAndTiers) {
  const Schedule schedule = ToSchedule(TwoFileOps(), 4096);
  EXPECT_EQ(schedule.key, "train");
  EXPECT_EQ(schedule.page_bytes, 4096u);
  ASSERT_EQ(schedule.ops.size(), 2u);
  EXPECT_EQ(schedule.ops[0].name, "forward");
  EXPECT_EQ(schedule.ops[0].lane, "gpu");
  EXPECT_EQ(schedule.ops[1].lane, "cpu");
  EXPECT_DOUBLE_EQ(schedule.ops[1].seconds, 0.25);
  EXPECT_EQ(Rows(schedule.ops[0].accesses),
            (std::vector<Row>{{0, 0, 100, AccessMode::kRead, kHbm0},
                              {1, 0, 50, AccessMode::kRead, kHbm0},
                              {3, 0, 4, AccessMode::kRead, kDram0},
                              {2, 0, 60, AccessMode::kOverwrite, kHbm0}}));
}

TEST(ToScheduleTest, ATensorThatIsReadAndWrittenIsOneAccess) {
  EXPECT_EQ(Rows(ToSchedule(TwoFileOps(), 4096).ops[1].accesses),
            (std::vector<Row>{{0, 16, 8, AccessMode::kReadWrite, kDram0},
                              {1, 0, 50, AccessMode::kRead, kDram0},
                              {2, 0, 60, AccessMode::kRead, kDram0},
                              {0, 32, 8, AccessMode::kOverwrite, kDram0},
                              {4, 0, 8, AccessMode::kOverwrite, kDram0}}));
}

TEST(ToScheduleTest, MergedTensorsTakeTheSumToBeMadeAgain) {
  FileSchedule file = TwoFileOps();
  file.ops[0].reads.clear();
  file.ops[0].writes = {{2, {30, 30}}, {0, {0, 8}}, {2, {0, 30}}, {1, {0, 9}}, {1, {9, 9}}};
  file.ops[0].recompute_seconds = {0.5, 2, 0.25, 1, std::nullopt};
  const Schedule schedule = ToSchedule(file, 4096);
  std::vector<std::optional<double>> seconds;
  for (const ScheduleAccess& access : schedule.ops[0].accesses) {
    seconds.push_back(access.recompute_seconds);
  }
  EXPECT_EQ(seconds, (std::vector<std::optional<double>>{2, std::nullopt, 0.75}));
}

TEST(ToScheduleTest, TemporaryTensorsAreDiscardedAfterTheirLastOp) {
  const Schedule schedule = ToSchedule(TwoFileOps(), 4096);
  EXPECT_TRUE(schedule.ops[0].discards.empty());
  std::vector<std::uint32_t> discarded;
  for (const ScheduleAccess& discard : schedule.ops[1].discards) {
    EXPECT_EQ(discard.range, kWholeTensor);
    discarded.push_back(discard.tensor);
  }
  EXPECT_EQ(discarded, (std::vector<std::uint32_t>{1, 2, 4}));
}

TEST(ToScheduleTest, TensorsOfOneSegmentShareIt) {
  const std::vector<ScheduleTensor> tensors = ToSchedule(TwoFileOps(), 4096).tensors;
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[2].name, "activation");
  EXPECT_EQ(tensors[2].kind, TensorKind::kActivation);
  EXPECT_EQ(tensors[2].bytes, 60u);
  EXPECT_EQ(tensors[3].segment, tensors[4].segment);
  EXPECT_EQ(tensors[4].segment_offset, 8u);
  for (const std::size_t other : {0, 1, 2}) {
    EXPECT_EQ(std::count_if(tensors.begin(),
                            tensors.end(),
                            [&](const ScheduleTensor& tensor) {
                              return tensor.segment == tensors[other].segment;
                            }),
              1);
  }
}

}  // namespace
}  // namespace sluice::sim
