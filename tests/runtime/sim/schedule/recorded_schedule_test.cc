#include "runtime/sim/schedule/recorded_schedule.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sim/files/schedule_writer.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;

/// Two ops, as a Runtime records them.
Schedule TwoOps() {
  Schedule schedule{.key = "train", .page_bytes = 4096};
  schedule.tensors = {
      {.name = "weight", .kind = TensorKind::kParameter, .bytes = 8192},
      {.name = "stash", .kind = TensorKind::kActivation, .bytes = 100, .segment = 1},
      {.name = "bias", .bytes = 64, .segment = 1, .segment_offset = 100}};
  const ScheduleAccess stash{.tensor = 1, .range = kWholeTensor, .mode = AccessMode::kOverwrite};
  schedule.ops = {
      {.name = "forward",
       .lane = "gpu",
       .seconds = 0.5,
       .accesses =
           {{.tensor = 0, .range = {0, 8192}, .mode = AccessMode::kRead, .tier = kHbm0},
            {.tensor = 1, .range = kWholeTensor, .mode = AccessMode::kOverwrite, .tier = kHbm0},
            {.tensor = 2, .range = {8, 8}, .mode = AccessMode::kRead, .tier = kDram0}}},
      {.name = "update",
       .lane = "cpu",
       .accesses = {{.tensor = 0,
                     .range = {4096, UINT64_MAX},
                     .mode = AccessMode::kReadWrite,
                     .tier = kDram0}},
       .discards = {stash}}};
  return schedule;
}

std::string Write(const Schedule& schedule) {
  std::string text;
  EXPECT_THAT(WriteRecorded("train-gpt",
                            schedule,
                            [&text](std::string_view line) {
                              EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
                              text += line;
                              return absl::OkStatus();
                            }),
              IsOk());
  return text;
}

TEST(RecordedScheduleTest, IsReadAsItWasRecorded) {
  const absl::StatusOr<FileSchedule> read = ReadText(Write(TwoOps()));
  ASSERT_THAT(read, IsOk());
  FileSchedule expected{.name = "train-gpt", .key = "train", .page_bytes = 4096};
  expected.tensors = {
      {.id = 0,
       .name = "weight",
       .bytes = 8192,
       .persistent = true,
       .kind = TensorKind::kParameter,
       .segment = 0},
      {.id = 1, .name = "stash", .bytes = 100, .kind = TensorKind::kActivation, .segment = 1},
      {.id = 2,
       .name = "bias",
       .bytes = 64,
       .persistent = true,
       .segment = 1,
       .segment_offset = 100}};
  expected.ops = {{.id = 0,
                   .name = "forward",
                   .seconds = 0.5,
                   .exceptions = {{2, kDram0}},
                   .reads = {{0, {0, 8192}}, {2, {8, 8}}},
                   .writes = {{1, {0, 100}}}},
                  {.id = 1,
                   .name = "update",
                   .lane = "cpu",
                   .tier = kDram0,
                   .reads = {{0, {4096, 4096}}},
                   .writes = {{0, {4096, 4096}}}}};
  EXPECT_EQ(*read, expected);
}

TEST(RecordedScheduleTest, KeepsWhatTakesHowLongToBeMadeAgain) {
  Schedule schedule = TwoOps();
  schedule.ops[0].accesses[1].recompute_seconds = 0.25;
  schedule.ops[0].accesses[2].mode = AccessMode::kOverwrite;
  const absl::StatusOr<FileSchedule> read = ReadText(Write(schedule));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->ops[0].recompute_seconds,
            (std::vector<std::optional<double>>{0.25, std::nullopt}));
  EXPECT_TRUE(read->ops[1].recompute_seconds.empty());
  const Schedule again = ToSchedule(*read, 4096);
  for (const ScheduleAccess& access : again.ops[0].accesses) {
    EXPECT_EQ(access.recompute_seconds, access.tensor == 1 ? std::optional(0.25) : std::nullopt);
  }
}

TEST(RecordedScheduleTest, OnlyTensorsThatAreDiscardedWholeAndLastDie) {
  Schedule schedule = TwoOps();
  schedule.ops.push_back({.name = "again",
                          .lane = "gpu",
                          .accesses = {{.tensor = 1, .range = kWholeTensor, .tier = kHbm0}}});
  EXPECT_TRUE(ReadText(Write(schedule))->tensors[1].persistent);
  schedule.ops.back().discards = {{.tensor = 1, .range = {0, 99}}};
  EXPECT_TRUE(ReadText(Write(schedule))->tensors[1].persistent);
  schedule.ops.back().discards = {{.tensor = 1, .range = {0, 100}}};
  EXPECT_FALSE(ReadText(Write(schedule))->tensors[1].persistent);
}

TEST(RecordedScheduleTest, AnErrorOfTheSinkEndsIt) {
  int lines = 0;
  const absl::Status status = WriteRecorded("x", TwoOps(), [&lines](std::string_view) {
    return ++lines == 3 ? absl::DataLossError("full") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::DataLossError("full"));
  EXPECT_EQ(lines, 3);
}

}  // namespace
}  // namespace sluice::sim
