#include "base/timer.h"

#include <sys/syscall.h>

#include <cerrno>
#include <future>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "base/worker_pool.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"

namespace sluice::base {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(BackoffTest, EachPauseIsFourTimesTheOneBefore) {
  const Backoff backoff;
  std::vector<microseconds> pauses;
  for (int failed = 1; failed < backoff.attempts_max; ++failed) {
    pauses.push_back(backoff.PauseAfter(failed));
  }
  EXPECT_EQ(pauses,
            (std::vector<microseconds>{milliseconds(1),
                                       milliseconds(4),
                                       milliseconds(16),
                                       milliseconds(64),
                                       milliseconds(256)}));
}

TEST(TimerTest, RunsJobsInTheOrderOfTheirTimesAndNotBefore) {
  std::vector<int> order;
  std::promise<void> last;
  const auto begin = std::chrono::steady_clock::now();
  Timer timer("test-timer");
  ASSERT_TRUE(timer.After(milliseconds(40), [&] {
    order.push_back(2);
    last.set_value();
  }));
  ASSERT_TRUE(timer.After(milliseconds(5), [&] { order.push_back(1); }));
  last.get_future().wait();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(40));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(TimerTest, AJobMayAskForAnother) {
  std::promise<void> last;
  Timer timer("test-timer");
  timer.After(microseconds(1), [&] { timer.After(microseconds(1), [&] { last.set_value(); }); });
  last.get_future().wait();
}

/// Processors of the timer's thread, when a thread bound to `cpu` is the first to need it.
std::vector<int> CpusOf(Timer& timer, int cpu) {
  std::vector<int> seen;
  std::thread bound([&] {
    SetUpThread("test-bound", {cpu});
    std::promise<void> done;
    timer.After(microseconds(1), [&] {
      seen = AllowedCpus();
      done.set_value();
    });
    done.get_future().wait();
  });
  bound.join();
  return seen;
}

TEST(TimerTest, TheThreadRunsWhereItsMakerMayOrSays) {
  const std::vector<int> allowed = AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  Timer free("test-timer");
  EXPECT_EQ(CpusOf(free, allowed.front()), allowed);
  Timer given("test-timer", {allowed.back()});
  EXPECT_EQ(CpusOf(given, allowed.front()), std::vector<int>{allowed.back()});
}

TEST(TimerTest, WithoutAThreadTheJobIsRefused) {
  EXPECT_EQ(testing::RunInChild([]() -> std::string {
              const std::string failed =
                  testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
              if (!failed.empty()) return failed;
              Timer timer("test-timer");
              return timer.After(microseconds(1), [] {}) ? "taken" : "refused";
            }),
            "refused");
}

}  // namespace
}  // namespace sluice::base
