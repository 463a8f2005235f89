#include "runtime/engine/control/schedule_recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

std::shared_ptr<TensorInfo> MakeTensor(std::uint64_t id) {
  auto tensor = std::make_shared<TensorInfo>();
  tensor->id = TensorId{id};
  tensor->spec.name = "tensor" + std::to_string(id);
  tensor->bytes = 100;
  return tensor;
}

/// Names of what each op of the schedule discards, one text per op.
std::vector<std::string> Discards(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const ScheduleOp& op : schedule.ops) {
    names.emplace_back();
    for (const ScheduleAccess& discard : op.discards) {
      names.back() += schedule.tensors[discard.tensor].name + " ";
    }
  }
  return names;
}

class DiscardTest : public ::testing::Test {
 protected:
  void Use(const std::string& lane, int tensor) {
    const ResolvedAccess access{.tensor = tensors_[static_cast<std::size_t>(tensor)],
                                .range = {0, 100}};
    recorder_.BeginOp("op", lane).AddAccesses({&access, 1});
  }
  void Discard(int tensor) {
    recorder_.AddDiscard(*tensors_[static_cast<std::size_t>(tensor)], {0, 100});
  }
  std::vector<std::string> End() {
    EXPECT_TRUE(recorder_.EndIteration());
    return Discards(*recorder_.Get("key"));
  }

  ScheduleRecorder recorder_{4096};
  const std::vector<std::shared_ptr<TensorInfo>> tensors_ = {
      MakeTensor(0), MakeTensor(1), MakeTensor(2)};
};

TEST_F(DiscardTest, StandsAtTheDiscardingLanesOpWhateverOtherLanesHaveBegun) {
  recorder_.BeginIteration("key");
  Use("cpu", 0);
  Use("gpu", 1);
  Use("gpu", 2);
  Discard(0);
  EXPECT_EQ(End(), (std::vector<std::string>{"tensor0 ", "", ""}));
}

TEST_F(DiscardTest, StandsAtTheLastUserThoughAnOpIsAskedForAhead) {
  recorder_.BeginIteration("key");
  for (const int tensor : {1, 0, 1, 2}) Use("gpu", tensor);
  Discard(1);
  Use("gpu", 1);
  EXPECT_EQ(End(), (std::vector<std::string>{"", "", "tensor1 ", "", ""}));
}

TEST_F(DiscardTest, ADiscardBeforeTheFirstUseBelongsBehindTheLastOne) {
  recorder_.BeginIteration("key");
  Use("gpu", 2);
  Discard(0);
  Discard(1);
  Use("gpu", 0);
  Use("gpu", 2);
  EXPECT_EQ(End(), (std::vector<std::string>{"", "tensor0 ", "tensor1 "}))
      << "of tensor1, which no op uses, behind the last op";
}

}  // namespace
}  // namespace sluice::engine
