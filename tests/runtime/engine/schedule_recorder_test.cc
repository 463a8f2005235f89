#include "runtime/engine/schedule_recorder.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace sluice::engine {
namespace {

using testing::HasCode;
using testing::IsOk;

void Iterate(ScheduleRecorder* recorder, const std::string& key, int ops) {
  recorder->BeginIteration(key);
  for (int i = 0; i < ops; ++i) recorder->BeginOp("op", "gpu").SetSeconds(1);
  EXPECT_TRUE(recorder->EndIteration());
}

TEST(ScheduleRecorderTest, KeysThatHaveNotEndedForLongAreDropped) {
  ScheduleRecorder recorder(4096, {.schedules_max = 2});
  for (const char* key : {"a", "b", "a", "c"}) Iterate(&recorder, key, 3);
  EXPECT_THAT(recorder.Get("a"), IsOk());
  EXPECT_THAT(recorder.Get("b"), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(recorder.Get("c"), IsOk());
}

TEST(ScheduleRecorderTest, AllKeysTogetherAreBounded) {
  ScheduleRecorder recorder(4096, {.accesses_max = 10});
  for (const char* key : {"a", "b"}) Iterate(&recorder, key, 5);
  EXPECT_THAT(recorder.Get("a"), IsOk());
  Iterate(&recorder, "c", 5);
  EXPECT_THAT(recorder.Get("a"), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(recorder.Get("b"), IsOk());
}

TEST(ScheduleRecorderTest, AnIterationThatIsTooLongIsNotKept) {
  ScheduleRecorder recorder(4096, {.accesses_max = 10});
  Iterate(&recorder, "long", 10);
  EXPECT_THAT(recorder.Get("long"), IsOk());
  Iterate(&recorder, "long", 11);
  EXPECT_THAT(recorder.Get("long"), HasCode(absl::StatusCode::kNotFound));
  Iterate(&recorder, "long", 4);
  EXPECT_EQ(recorder.Get("long")->ops.size(), 4u);
}

TEST(ScheduleRecorderTest, AnOpThatOutlivesARecordThatWasGivenUpIsHarmless) {
  ScheduleRecorder recorder(4096, {.accesses_max = 3});
  recorder.BeginIteration("key");
  OpRecord first = recorder.BeginOp("op", "gpu");
  for (int i = 0; i < 5; ++i) recorder.BeginOp("op", "gpu");
  first.SetSeconds(2);
  first.AddAccesses({});
  EXPECT_TRUE(recorder.EndIteration());
  first.SetSeconds(3);
  EXPECT_THAT(recorder.Get("key"), HasCode(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace sluice::engine
