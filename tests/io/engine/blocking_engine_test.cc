// Processors of an engine's threads, and the limit of what they do at a time.
#include "io/engine/blocking_engine.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "gtest/gtest.h"
#include "io/store/page_store_parts.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using base::AllowedCpus;
using CpuSets = std::set<std::vector<int>>;

constexpr std::uint32_t kThreads = 4;

class CountedRequest final : public IoRequest {
 public:
  explicit CountedRequest(std::latch& done) : done_(done) {}
  void Complete(std::int64_t /*result*/) override { done_.count_down(); }

 private:
  std::latch& done_;
};

/// An engine whose commands run a function of the test.
class ThreadsUnderTest {
 public:
  explicit ThreadsUnderTest(std::vector<int> cpus = {},
                            std::uint32_t threads = kThreads,
                            std::uint64_t bytes_in_flight_max = UINT64_MAX)
      : threads_(threads),
        engine_(BlockingEngine::Create({.name = "test",
                                        .threads = threads,
                                        .bytes_in_flight_max = bytes_in_flight_max,
                                        .cpus = std::move(cpus)},
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

  /// Processors that each thread may run on; all threads answer at once.
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

TEST(BlockingEngineTest, ThreadsRunWhereTheirMakerMay) {
  ThreadsUnderTest threads;
  EXPECT_EQ(threads.Cpus(), CpuSets{AllowedCpus()});
}

TEST(BlockingEngineTest, ThreadsRunOnTheProcessorsThatAreGiven) {
  const std::vector<int> allowed = AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  for (const int cpu : {allowed.front(), allowed.back()}) {
    ThreadsUnderTest threads({cpu});
    EXPECT_EQ(threads.Cpus(), CpuSets{{cpu}});
  }
}

TEST(BlockingEngineTest, SaysHowManyThreadsItHas) {
  EXPECT_EQ(ThreadsUnderTest({}, 1).features(), "1 thread");
  EXPECT_EQ(ThreadsUnderTest({}, 4).features(), "4 threads");
}

// The barrier opens when as many commands run as the limit allows, or two if it allows fewer.
TEST(BlockingEngineTest, AsManyCommandsRunAsBytesMayBeInFlight) {
  for (const int limit : {0, 1, 2, 3}) {
    const int expected = std::max(limit, 2);
    ThreadsUnderTest threads({}, kThreads, static_cast<std::uint64_t>(limit) * kIoAlignment);
    std::barrier all_inside(expected);
    std::atomic<int> running = 0;
    std::atomic<int> most = 0;
    threads.Do(60, [&] {
      const int now = ++running;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
      all_inside.arrive_and_wait();
      --running;
    });
    EXPECT_EQ(most, expected) << "limit of " << limit << " blocks";
  }
}

TEST(BlockingEngineTest, AStoreSaysHowManyThreadsItHas) {
  const testing::TempDirectory directory;
  const auto parts = MakePageStoreParts({.directory = directory.path(),
                                         .page_bytes = kIoAlignment,
                                         .slots = 8,
                                         .queue_depth = kThreads,
                                         .io_uring = Use::kOff});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->engine->features(), "4 threads");
}

}  // namespace
}  // namespace sluice::io
