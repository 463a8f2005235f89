// Which processors the threads of an engine run on.
#include "io/blocking_engine.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "gtest/gtest.h"
#include "io/common_cpu.h"
#include "io/page_store_parts.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using base::AllowedCpus;
using CpuSets = std::set<std::vector<int>>;

constexpr std::uint32_t kThreads = 4;
constexpr char kTogether[] = "4 threads on one processor";
constexpr char kApart[] = "4 threads";

class CountedRequest final : public IoRequest {
 public:
  explicit CountedRequest(std::latch& done) : done_(done) {}
  void Complete(std::int64_t /*result*/) override { done_.count_down(); }

 private:
  std::latch& done_;
};

/// An engine whose commands are whatever the test wants to be done.
class ThreadsUnderTest {
 public:
  explicit ThreadsUnderTest(std::vector<int> cpus = {}, std::uint32_t threads = kThreads)
      : threads_(threads),
        engine_(
            BlockingEngine::Create({.name = "test", .threads = threads, .cpus = std::move(cpus)},
                                   [this](const IoCommand&) {
                                     work_();
                                     return 0;
                                   })
                .value()) {}

  /// `count` times on any of the threads, each given after a pause; returns when all are done.
  void Do(std::uint32_t count, std::function<void()> work, std::chrono::milliseconds pause = {}) {
    work_ = std::move(work);
    std::latch done(count);
    std::vector<std::unique_ptr<CountedRequest>> requests;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::this_thread::sleep_for(pause);
      requests.push_back(std::make_unique<CountedRequest>(done));
      requests.back()->command = {.file = &file_, .data = page_, .bytes = kIoAlignment};
      SLUICE_CHECK(engine_->Submit(requests.back().get()).ok(), "a whole page of the file");
    }
    done.wait();
  }

  /// What each thread may run on, asked of all of them at once.
  CpuSets Cpus() {
    base::Mutex mutex;
    CpuSets sets;
    std::latch all_inside(threads_);
    Do(threads_, [&] {
      all_inside.arrive_and_wait();
      const base::MutexLock lock(mutex);
      sets.insert(AllowedCpus());
    });
    return sets;
  }

  std::string features() const { return engine_->features(); }

 private:
  const std::uint32_t threads_;
  const IoFile file_{.bytes = kIoAlignment};
  alignas(kIoAlignment) std::byte page_[kIoAlignment];
  std::function<void()> work_;
  std::unique_ptr<BlockingEngine> engine_;  // last: its threads use the rest
};

std::int64_t ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void Compute(std::chrono::nanoseconds time) {
  const std::int64_t end = ThreadTime() + time.count();
  while (ThreadTime() < end) continue;
}

void BindTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  SLUICE_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "it is one of those that are allowed");
}

/// Lets the threads do `work` until they are apart, or for a minute.
void DoUntilApart(ThreadsUnderTest& threads, const std::function<void()>& work) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (threads.features() == kTogether && std::chrono::steady_clock::now() < deadline) {
    threads.Do(kThreads, work);
  }
}

TEST(BlockingEngineTest, ThreadsThatWaitShareOneProcessor) {
  const std::vector<int> allowed = AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  ThreadsUnderTest threads;
  const CpuSets sets = threads.Cpus();
  ASSERT_EQ(sets.size(), 1U);
  ASSERT_EQ(sets.begin()->size(), 1U);
  EXPECT_TRUE(std::set<int>(allowed.begin(), allowed.end()).contains(sets.begin()->front()));
  // For longer than it takes to find out, and with waits that are short beside the sleep on a busy
  // machine as well.
  for (int i = 0; i < 5; ++i) {
    threads.Do(kThreads, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  }
  EXPECT_EQ(threads.Cpus(), sets);
  EXPECT_EQ(threads.features(), kTogether);
}

TEST(BlockingEngineTest, TheProcessorIsOneOfThoseThatAreGiven) {
  const std::vector<int> given = AllowedCpus();
  if (given.size() < 2) GTEST_SKIP() << "there is one processor only";
  for (const int cpu : {given.front(), given.back()}) {
    ThreadsUnderTest threads({cpu});
    EXPECT_EQ(threads.Cpus(), CpuSets{{cpu}});
  }
}

TEST(BlockingEngineTest, ThreadsThatComputeRunWhereTheyDidBefore) {
  const std::vector<int> allowed = AllowedCpus();
  // Short and long requests: beyond 100 ms each is longer than the time between two looks.
  for (const auto time : {std::chrono::milliseconds(2), std::chrono::milliseconds(150)}) {
    for (const std::vector<int>& given : {std::vector<int>{}, std::vector<int>{allowed.back()}}) {
      ThreadsUnderTest threads(given);
      EXPECT_EQ(threads.features(), kTogether);
      DoUntilApart(threads, [&] { Compute(time); });
      EXPECT_EQ(threads.features(), kApart);
      EXPECT_EQ(threads.Cpus(), CpuSets{given.empty() ? allowed : given});
    }
  }
}

TEST(BlockingEngineTest, ThreadsThatGetNoTimeGoElsewhere) {
  ThreadsUnderTest threads;
  const int cpu = threads.Cpus().begin()->front();
  // As little as there is beside a thread of the usual priority.
  threads.Do(64, [] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::atomic<bool> stop{false};
  std::thread other([&] {
    BindTo(cpu);
    while (!stop) continue;
  });
  DoUntilApart(threads, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  stop = true;
  other.join();
  EXPECT_EQ(threads.features(), kApart);
  EXPECT_EQ(threads.Cpus(), CpuSets{AllowedCpus()});
}

TEST(BlockingEngineTest, WhatSomebodyElseHasBoundStaysSo) {
  const std::vector<int> allowed = AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  ThreadsUnderTest threads;
  const int common = threads.Cpus().begin()->front();
  const int other = allowed.front() == common ? allowed.back() : allowed.front();
  threads.Do(1, [&] { BindTo(other); });
  DoUntilApart(threads, [] { Compute(std::chrono::milliseconds(2)); });
  EXPECT_EQ(threads.features(), kApart);
  EXPECT_EQ(threads.Cpus(), (CpuSets{{other}, allowed}));
}

std::size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::string Refuse(long system_call) {
  return testing::RefuseSystemCall(system_call, EPERM, testing::Refuse::kEveryCall);
}

/// What threads say that were started without it.
std::string FeaturesWithout(long system_call) {
  return testing::RunInChild([&] {
    const std::string failed = Refuse(system_call);
    if (!failed.empty()) return failed;
    ThreadsUnderTest threads;
    threads.Cpus();  // each of them works
    return threads.features();
  });
}

TEST(BlockingEngineTest, WithoutASystemCallTheyRunAnywhere) {
  EXPECT_EQ(FeaturesWithout(SYS_sched_setaffinity), kApart);
  EXPECT_EQ(FeaturesWithout(SYS_openat), kApart);
  EXPECT_EQ(FeaturesWithout(SYS_pread64), kApart);
}

TEST(BlockingEngineTest, ThreadsThatCannotBeLookedAtAnyMoreGoApart) {
  EXPECT_EQ(testing::RunInChild([] {
              ThreadsUnderTest threads;
              threads.Cpus();
              const std::string failed = Refuse(SYS_pread64);
              if (!failed.empty()) return failed;
              DoUntilApart(threads,
                           [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
              return threads.features();
            }),
            kApart);
}

TEST(BlockingEngineTest, TheThreadsLookWhereNobodyGivesThemWork) {
  ThreadsUnderTest threads;
  // Two minutes of work for one processor, given at once: none is submitted while it is done.
  std::atomic<bool> enough{false};
  threads.Do(2000, [&] {
    if (!enough) Compute(std::chrono::milliseconds(60));
    if (threads.features() == kApart) enough = true;
  });
  EXPECT_EQ(threads.features(), kApart);
}

TEST(BlockingEngineTest, WhoGivesWorkLooksWhereNoThreadEndsAny) {
  EXPECT_EQ(testing::RunInChild([] {
              ThreadsUnderTest threads;
              threads.Cpus();
              const std::string failed = Refuse(SYS_pread64);
              if (!failed.empty()) return failed;
              std::atomic<int> begun{0};
              std::latch over(1);
              std::string features;  // after the second was given, and before any has ended
              threads.Do(
                  2,
                  [&] {
                    if (++begun == 1) return over.wait();
                    features = threads.features();
                    over.count_down();
                  },
                  std::chrono::milliseconds(150));
              return features;
            }),
            kApart);
}

TEST(BlockingEngineTest, WhereOneCannotBeLookedAtNoneStaysBound) {
  const auto allowed = CpuSets{AllowedCpus()};
  EXPECT_EQ(testing::RunInChild([&allowed] {
              // A file for the first of them, at most for two.
              const int next = dup(STDERR_FILENO);
              close(next);
              const auto files = static_cast<rlim_t>(next) + 2;
              const rlimit limit{.rlim_cur = files, .rlim_max = files};
              SLUICE_CHECK(next >= 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0, "it is lowered");
              ThreadsUnderTest threads;
              const std::string features = threads.features();
              return threads.Cpus() == allowed ? features : "bound";
            }),
            kApart);
}

TEST(BlockingEngineTest, ThreadsThatCannotGoBackSaySo) {
  EXPECT_EQ(testing::RunInChild([] {
              ThreadsUnderTest threads;
              threads.Cpus();
              const std::string failed = Refuse(SYS_sched_setaffinity);
              if (!failed.empty()) return failed;
              // Three times as long as they go apart after otherwise.
              const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
              while (std::chrono::steady_clock::now() < end) {
                threads.Do(kThreads, [] { Compute(std::chrono::milliseconds(2)); });
              }
              return threads.features();
            }),
            kTogether);
}

/// After how many windows of 100 ms threads have too much to do that were runnable for `shares` of
/// each of those, the last one again and again; 0: after none of fifty.
int WindowsUntilTooMuch(const std::vector<double>& shares) {
  constexpr std::chrono::nanoseconds kWindow = std::chrono::milliseconds(100);
  const RunnableJudge::TimePoint start{};
  RunnableJudge judge(start);
  std::chrono::nanoseconds total{0};
  for (int i = 1; i <= 50; ++i) {
    const double share = shares[std::min<std::size_t>(i - 1, shares.size() - 1)];
    total += std::chrono::duration_cast<std::chrono::nanoseconds>(share * kWindow);
    if (judge.IsTooMuch(total, start + i * kWindow)) return i;
  }
  return 0;
}

TEST(RunnableJudgeTest, HalfAThreadIsNotTooMuch) {
  EXPECT_EQ(WindowsUntilTooMuch({0}), 0);
  EXPECT_EQ(WindowsUntilTooMuch({0.5}), 0);
  EXPECT_EQ(WindowsUntilTooMuch({0.51}), 3);
  EXPECT_EQ(WindowsUntilTooMuch({16}), 3);
}

TEST(RunnableJudgeTest, ItTakesThreeWindowsMoreThanNot) {
  EXPECT_EQ(WindowsUntilTooMuch({16, 16, 0}), 0);
  EXPECT_EQ(WindowsUntilTooMuch({1, 1, 0, 1}), 5);
  EXPECT_EQ(WindowsUntilTooMuch({0, 0, 0, 0, 1}), 7);
}

TEST(RunnableJudgeTest, ALongWindowIsTooMuchByItsLength) {
  const RunnableJudge::TimePoint start{};
  RunnableJudge judge(start);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_FALSE(judge.IsTooMuch(std::chrono::seconds(i), start + i * std::chrono::seconds(3)));
  }
}

TEST(RunnableJudgeTest, BurstsAddUpOverThePauses) {
  using std::chrono::milliseconds;
  const RunnableJudge::TimePoint start{};
  RunnableJudge judge(start);
  const auto is_too_much = [&](int burst, milliseconds in_it, milliseconds total) {
    return judge.IsTooMuch(total, start + std::chrono::seconds(burst) + in_it);
  };
  // 180 ms of one thread in each second: the first look in it ends the pause.
  for (const int burst : {1, 2}) {
    EXPECT_FALSE(is_too_much(burst, milliseconds(0), milliseconds(180) * (burst - 1)));
    EXPECT_FALSE(
        is_too_much(burst, milliseconds(100), milliseconds(180) * (burst - 1) + milliseconds(100)));
  }
  EXPECT_FALSE(is_too_much(3, milliseconds(0), milliseconds(360)));
  EXPECT_TRUE(is_too_much(3, milliseconds(100), milliseconds(460)));
}

TEST(CommonCpuTest, RunnableIsWhatRanAndWhatWaited) {
  EXPECT_EQ(RunnableTime("1000 234 5\n"), std::chrono::nanoseconds(1234));
  EXPECT_EQ(RunnableTime("9000000000000 1 1"), std::chrono::nanoseconds(9'000'000'000'001));
}

TEST(CommonCpuTest, WhatDoesNotCountOrCannotBeReadIsNoTime) {
  for (const char* text : {"0 0 0\n", "", "1", "1 2", "1 2 ", "a b c", "1 -"}) {
    EXPECT_EQ(RunnableTime(text), std::nullopt) << text;
  }
}

TEST(BlockingEngineTest, ThreadsThatEndLeaveNoFileOpen) {
  const std::size_t before = OpenFiles();
  {
    ThreadsUnderTest threads;
    threads.Cpus();
    EXPECT_EQ(OpenFiles(), before + kThreads);
    DoUntilApart(threads, [] { Compute(std::chrono::milliseconds(2)); });
    threads.Cpus();  // none of them is at it any more
    EXPECT_EQ(OpenFiles(), before);
  }
  EXPECT_EQ(OpenFiles(), before);
  {
    ThreadsUnderTest threads;
    threads.Cpus();
  }
  EXPECT_EQ(OpenFiles(), before);
}

TEST(BlockingEngineTest, OneThreadRunsAnywhere) {
  ThreadsUnderTest thread({}, 1);
  EXPECT_EQ(thread.Cpus(), CpuSets{AllowedCpus()});
  EXPECT_EQ(thread.features(), "1 thread");
}

TEST(BlockingEngineTest, AStoreSaysHowItsThreadsRun) {
  const testing::TempDirectory directory;
  const auto parts = MakePageStoreParts({.directory = directory.path(),
                                         .page_bytes = kIoAlignment,
                                         .slots = 8,
                                         .queue_depth = kThreads,
                                         .disable_io_uring = true});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->engine->features(), kTogether);
}

}  // namespace
}  // namespace sluice::io
