#include "runtime/engine/api/op_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using internal::OpState;
using std::chrono::seconds;
using testing::IsOk;

/// An op whose clock is told the time in seconds.
class OpStateTest : public ::testing::Test {
 protected:
  OpStateTest() {
    recorder_.BeginIteration("key");
    op_ = std::make_unique<OpState>(std::weak_ptr<internal::RuntimeState>(),
                                    OpState::Identity{},
                                    recorder_.BeginOp("op", "gpu"));
  }
  static OpState::Clock::time_point At(int second) {
    return OpState::Clock::time_point(seconds(100 + second));
  }
  /// Recorded seconds of an op that ends at `second`.
  double EndedAt(int second) {
    op_->End(At(second));
    EXPECT_TRUE(recorder_.EndIteration());
    return recorder_.Get("key")->ops[0].seconds;
  }

  engine::ScheduleRecorder recorder_{4096};
  std::unique_ptr<OpState> op_;
};

TEST_F(OpStateTest, WaitsAreNoTimeOfTheOp) {
  op_->BeginWait(At(0));
  op_->EndWait(At(10));
  op_->Start(At(10));
  op_->BeginWait(At(13));
  op_->EndWait(At(20));
  EXPECT_DOUBLE_EQ(EndedAt(22), 5);
}

TEST_F(OpStateTest, WaitsAtTheSameTimeCountOnce) {
  op_->Start(At(0));
  op_->BeginWait(At(1));
  op_->BeginWait(At(2));
  op_->EndWait(At(6));
  op_->BeginWait(At(7));
  op_->EndWait(At(8));
  op_->EndWait(At(9));
  EXPECT_DOUBLE_EQ(EndedAt(10), 2);
}

TEST_F(OpStateTest, AWaitThatBeganBeforeTheOpCountsFromItsStart) {
  op_->BeginWait(At(0));
  op_->Start(At(4));
  op_->EndWait(At(6));
  EXPECT_DOUBLE_EQ(EndedAt(9), 3);
}

TEST_F(OpStateTest, AWaitThatGoesOnWhenTheOpEndsCountsUntilThen) {
  op_->Start(At(0));
  op_->BeginWait(At(3));
  EXPECT_DOUBLE_EQ(EndedAt(10), 3);
  op_->EndWait(At(20));
}

TEST_F(OpStateTest, ClocksThatWereReadOutOfOrderGiveNoNegativeTime) {
  op_->Start(At(5));
  op_->BeginWait(At(5));
  op_->EndWait(At(3));
  EXPECT_DOUBLE_EQ(EndedAt(4), 0);
}

TEST(OpSecondsTest, TwoThreadsThatWaitWithinOneOpAreCountedOnce) {
  testing::RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensors[] = {runtime.Make("a", kPage), runtime.Make("b", kPage)};
  ASSERT_THAT(runtime->BeginIteration("key"), IsOk());
  const Access free{.tensor = runtime.Make("c", kPage), .mode = AccessMode::kOverwrite};
  Op op = runtime->BeginOp({.name = "op", .lane = "waiting"});
  const auto started = op.Acquire(free);
  ASSERT_THAT(started, IsOk());
  std::vector<Lease> held;
  for (const TensorId tensor : tensors) {
    auto lease = runtime.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite});
    ASSERT_THAT(lease, IsOk());
    held.push_back(*std::move(lease));
  }
  std::atomic<int> waiting = 0;
  std::vector<std::jthread> threads;
  for (const TensorId tensor : tensors) {
    const Access access{.tensor = tensor, .mode = AccessMode::kReadWrite};
    threads.emplace_back([&waiting, ticket = op.AcquireAll({&access, 1})]() mutable {
      ++waiting;
      EXPECT_THAT(ticket.Take(), IsOk());
    });
  }
  while (waiting < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // twice that would be subtracted
  held.clear();
  threads.clear();
  op = Op();
  ASSERT_THAT(runtime->EndIteration(), IsOk());
  const auto schedule = runtime->RecordedSchedule("key");
  ASSERT_THAT(schedule, IsOk());
  EXPECT_GE(schedule->ops[0].seconds, 0);
}

}  // namespace
}  // namespace sluice
