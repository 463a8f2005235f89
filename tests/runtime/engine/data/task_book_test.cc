#include "runtime/engine/data/task_book.h"

#include <chrono>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::engine {
namespace {

using std::chrono::milliseconds;

constexpr TaskBook::Clock::time_point kBegun{std::chrono::hours(1)};

TEST(TaskBookTest, ATaskThatTakesTooLongIsToldOnce) {
  TaskBook tasks(0.1);
  tasks.Add(1, {.page = 7, .begun = kBegun});
  tasks.Add(2, {.page = 8, .begun = kBegun + milliseconds(50)});
  EXPECT_TRUE(tasks.TakeStalled(kBegun + milliseconds(100)).empty());
  const std::vector<TaskBook::RunningTask> first = tasks.TakeStalled(kBegun + milliseconds(101));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].page, 7U);
  const std::vector<TaskBook::RunningTask> second = tasks.TakeStalled(kBegun + milliseconds(200));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].page, 8U);
  EXPECT_TRUE(tasks.TakeStalled(kBegun + milliseconds(300)).empty());
}

TEST(TaskBookTest, ATaskThatHasEndedIsNotTold) {
  TaskBook tasks(0.1);
  tasks.Add(1, {.page = 7, .begun = kBegun});
  EXPECT_EQ(tasks.End(1).page, 7U);
  EXPECT_TRUE(tasks.TakeStalled(kBegun + milliseconds(200)).empty());
  EXPECT_EQ(tasks.NextLook(kBegun), TaskBook::Clock::time_point::max());
}

TEST(TaskBookTest, WithoutALimitNothingTakesTooLong) {
  TaskBook tasks(0);
  tasks.Add(1, {.page = 7, .begun = kBegun});
  EXPECT_TRUE(tasks.TakeStalled(kBegun + std::chrono::hours(1)).empty());
}

}  // namespace
}  // namespace sluice::engine
