#include "base/cond_var.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace sluice::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLongEnough{60};

/// A gate that lets `count` waiting threads through, whichever take it first.
class Gate {
 public:
  void Open(int count) {
    MutexLock lock(mutex_);
    open_ += count;
    count == 1 ? changed_.NotifyOne() : changed_.NotifyAll();
  }
  /// Tells only once the mutex is free.
  void OpenOneAndTellOutside() {
    {
      MutexLock lock(mutex_);
      ++open_;
    }
    changed_.NotifyOne();
  }
  /// A wake-up that does not come is an error, even if there is something to take.
  void Pass() {
    const auto deadline = CondVar::Clock::now() + kLongEnough;
    MutexLock lock(mutex_);
    ++waiting_;
    while (open_ == 0) {
      if (changed_.WaitUntil(mutex_, deadline)) continue;
      ADD_FAILURE() << "no wake-up came";
      if (open_ == 0) return;
    }
    --waiting_;
    --open_;
  }
  bool PassUntil(CondVar::Clock::time_point deadline) {
    MutexLock lock(mutex_);
    ++waiting_;
    bool in_time = true;
    while (open_ == 0 && in_time) in_time = changed_.WaitUntil(mutex_, deadline);
    --waiting_;
    if (open_ == 0) return false;
    --open_;
    return true;
  }
  int waiting() {
    MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

void AwaitWaiting(Gate& gate, int count) {
  while (gate.waiting() < count) std::this_thread::yield();
}

TEST(CondVarTest, NotifyOneWakesOneThatSleeps) {
  Gate gate;
  std::thread waiter([&] { gate.Pass(); });
  AwaitWaiting(gate, 1);
  gate.Open(1);
  waiter.join();
}

TEST(CondVarTest, AWaitWithoutADeadlineEnds) {
  Mutex mutex;
  CondVar changed;
  bool told = false;
  std::thread teller([&] {
    MutexLock lock(mutex);
    told = true;
    changed.NotifyOne();
  });
  {
    MutexLock lock(mutex);
    while (!told) changed.Wait(mutex);
  }
  teller.join();
}

TEST(CondVarTest, NotifyAllWakesAllThatSleep) {
  constexpr int kThreads = 8;
  Gate gate;
  std::vector<std::thread> waiters;
  for (int i = 0; i < kThreads; ++i) waiters.emplace_back([&] { gate.Pass(); });
  AwaitWaiting(gate, kThreads);
  gate.Open(kThreads);
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(CondVarTest, AWaitEndsAtItsDeadlineAndNotBefore) {
  Gate gate;
  const auto deadline = CondVar::Clock::now() + milliseconds(20);
  EXPECT_FALSE(gate.PassUntil(deadline));
  EXPECT_GE(CondVar::Clock::now(), deadline);
}

TEST(CondVarTest, ADeadlineThatHasPassedEndsAtOnce) {
  Gate gate;
  EXPECT_FALSE(gate.PassUntil(CondVar::Clock::now() - hours(1)));
  EXPECT_FALSE(gate.PassUntil(CondVar::Clock::time_point::min()));
}

TEST(CondVarTest, ANotificationEndsAWaitWithADeadlineFarAway) {
  Gate gate;
  std::atomic<bool> passed = false;
  std::thread waiter([&] { passed = gate.PassUntil(CondVar::Clock::time_point::max()); });
  AwaitWaiting(gate, 1);
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(gate.waiting(), 1) << "the wait is not over yet";
  gate.Open(1);
  waiter.join();
  EXPECT_TRUE(passed);
}

void PassManyTimes(int threads, void (*open)(Gate&)) {
  constexpr int kEach = 20'000 / testing::kSlowdown;
  Gate gate;
  Gate back;
  std::vector<std::thread> waiters;
  for (int i = 0; i < threads; ++i) {
    waiters.emplace_back([&] {
      for (int n = 0; n < kEach && !::testing::Test::HasFailure(); ++n) {
        gate.Pass();
        back.Open(1);
      }
    });
  }
  for (int n = 0; n < kEach && !::testing::Test::HasFailure(); ++n) {
    for (int i = 0; i < threads; ++i) open(gate);
    for (int i = 0; i < threads; ++i) back.Pass();
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_FALSE(gate.PassUntil(CondVar::Clock::now()));
  EXPECT_FALSE(back.PassUntil(CondVar::Clock::now()));
}

TEST(CondVarTest, NoWakeUpIsLostUnderTheMutex) {
  PassManyTimes(6, [](Gate& gate) { gate.Open(1); });
}

TEST(CondVarTest, NoWakeUpIsLostOutsideTheMutex) {
  PassManyTimes(6, [](Gate& gate) { gate.OpenOneAndTellOutside(); });
}

}  // namespace
}  // namespace sluice::base
