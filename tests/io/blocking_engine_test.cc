// Which processors the threads of an engine run on.
#include "io/blocking_engine.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "io/common_cpu.h"
#include "io/page_store_parts.h"
#include "tests/support/allowed_cpus.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::AllowedCpus;
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

  /// `count` times on any of the threads; returns when all are done.
  void Do(std::uint32_t count, std::function<void()> work) {
    work_ = std::move(work);
    std::latch done(count);
    std::vector<std::unique_ptr<CountedRequest>> requests;
    for (std::uint32_t i = 0; i < count; ++i) {
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

void Compute() {
  const std::int64_t end = ThreadTime() + 2'000'000;
  while (ThreadTime() < end) continue;
}

TEST(BlockingEngineTest, ThreadsThatWaitShareOneProcessor) {
  const std::vector<int> allowed = AllowedCpus();
  if (allowed.size() == 1) GTEST_SKIP() << "there is one processor only";
  ThreadsUnderTest threads;
  const CpuSets sets = threads.Cpus();
  ASSERT_EQ(sets.size(), 1U);
  ASSERT_EQ(sets.begin()->size(), 1U);
  EXPECT_TRUE(std::set<int>(allowed.begin(), allowed.end()).contains(sets.begin()->front()));
  // For longer than it takes to find out.
  threads.Do(40 * kThreads, [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  EXPECT_EQ(threads.Cpus(), sets);
  EXPECT_EQ(threads.features(), kTogether);
}

TEST(BlockingEngineTest, TheProcessorIsOneOfThoseThatAreGiven) {
  for (const int cpu : AllowedCpus()) {
    ThreadsUnderTest threads({cpu});
    EXPECT_EQ(threads.Cpus(), CpuSets{{cpu}});
  }
}

TEST(BlockingEngineTest, ThreadsThatComputeRunAnywhere) {
  const std::vector<int> allowed = AllowedCpus();
  for (const std::vector<int>& given : {std::vector<int>{}, std::vector<int>{allowed.back()}}) {
    ThreadsUnderTest threads(given);
    EXPECT_EQ(threads.features(), kTogether);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (threads.features() == kTogether && std::chrono::steady_clock::now() < deadline) {
      threads.Do(4 * kThreads, Compute);
    }
    EXPECT_EQ(threads.features(), kApart);
    EXPECT_EQ(threads.Cpus(), CpuSets{given.empty() ? allowed : given});
  }
}

/// Whether threads are still together after they were busy for `busy_ms` of each 120 ms, ten times.
bool TogetherAfter(int busy_ms) {
  CommonCpu common;
  const auto start = CommonCpu::Clock::now();
  for (int i = 0; i < 10; ++i) {
    const auto since = start + i * std::chrono::milliseconds(120);
    common.Count(std::chrono::milliseconds(busy_ms), since, since + std::chrono::milliseconds(120));
  }
  return common.together();
}

TEST(CommonCpuTest, ThreadsGoApartOverAThirdOfAProcessor) {
  EXPECT_TRUE(TogetherAfter(0));
  EXPECT_TRUE(TogetherAfter(40));
  EXPECT_FALSE(TogetherAfter(41));
}

TEST(CommonCpuTest, TheTimeOfAllThreadsCounts) {
  CommonCpu common;
  const auto start = CommonCpu::Clock::now();
  const auto end = start + std::chrono::milliseconds(120);
  common.Count(std::chrono::milliseconds(30), start, start + std::chrono::milliseconds(60));
  EXPECT_TRUE(common.together());
  common.Count(std::chrono::milliseconds(30), start, end);
  EXPECT_FALSE(common.together());
}

TEST(CommonCpuTest, WhatWasDoneLongAgoIsNotOfThisMoment) {
  CommonCpu common;
  const auto start = CommonCpu::Clock::now();
  const auto later = start + std::chrono::seconds(2);
  common.Count(std::chrono::milliseconds(1), later, later + std::chrono::milliseconds(101));
  // Of a request that ends now, and took two seconds.
  common.Count(std::chrono::milliseconds(500), start, later + std::chrono::milliseconds(202));
  EXPECT_TRUE(common.together());
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
