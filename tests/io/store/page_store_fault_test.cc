#include <cerrno>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "gtest/gtest.h"
#include "io/engine/blocking_engine.h"
#include "io/store/page_store_parts.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/faulty_engine.h"
#include "tests/support/store/memory_engine.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/store/store_under_test.h"
#include "tests/support/thread_cpus.h"

namespace sluice::io {
namespace {

using testing::FaultPlan;
using testing::FaultyEngine;
using testing::PageBuffer;
using testing::StoreUnderTest;

TEST(RetryTest, OtherRequestsPassOneThatWaitsToBeTriedAgain) {
  const FaultPlan plan{.kind = FaultPlan::Kind::kError,
                       .error_number = EAGAIN,
                       .operation = 0,
                       .direction = IoDirection::kRead};
  StoreUnderTest store({.options = {.page_bytes = 4096,
                                    .slots = 2,
                                    .backoff = {.first_pause = std::chrono::seconds(2)}},
                        .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                          return std::make_unique<FaultyEngine>(std::move(upstream), plan, 4096);
                        }});
  PageBuffer first(4096);
  PageBuffer second(4096);
  ASSERT_THAT(store.Write(0, {1, 0, 1}, first.span()), testing::IsOk());
  ASSERT_THAT(store.Write(1, {1, 1, 1}, second.span()), testing::IsOk());
  // Shared: the callback may still be inside set_value when the result is out.
  const auto done = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> read = done->get_future();
  store->Read(0, {1, 0, 1}, first.span(), [done](absl::Status status) {
    done->set_value(std::move(status));
  });
  EXPECT_THAT(store.Read(1, {1, 1, 1}, second.span()), testing::IsOk());
  EXPECT_EQ(read.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_THAT(read.get(), testing::IsOk());
}

TEST(RetryTest, TheThreadThatTriesAgainRunsWhereItIsTold) {
  const FaultPlan plan{.kind = FaultPlan::Kind::kError,
                       .error_number = EAGAIN,
                       .operation = 0,
                       .direction = IoDirection::kWrite};
  const std::vector<int> allowed = base::AllowedCpus();
  if (allowed.size() < 2) GTEST_SKIP() << "there is one processor only";
  const std::vector<int> cpus = {allowed.back()};
  StoreUnderTest store({.options = {.page_bytes = 4096, .slots = 1, .cpus = cpus},
                        .wrap = [&](std::unique_ptr<IoEngine> upstream) {
                          return std::make_unique<FaultyEngine>(std::move(upstream), plan, 4096);
                        }});
  PageBuffer page(4096);
  ASSERT_THAT(store.Write(0, {1, 0, 1}, page.span()), testing::IsOk());
  EXPECT_EQ(testing::CpusOfThreads()["sluice-io-retry"], (std::set{cpus}));
}

/// A timer that keeps its jobs until RunAll.
class HeldTimer final : public base::Timer {
 public:
  HeldTimer() : base::Timer("unused") {}
  bool After(std::chrono::microseconds, Job job) override {
    base::MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.NotifyAll();
    return true;
  }
  void WaitForJob() {
    base::MutexLock lock(mutex_);
    while (jobs_.empty()) changed_.Wait(mutex_);
  }
  void RunAll() {
    std::vector<Job> jobs;
    {
      base::MutexLock lock(mutex_);
      jobs.swap(jobs_);
    }
    for (Job& job : jobs) std::move(job)();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

/// One thread over memory that refuses its first request for a moment and holds the second.
class RefusingThread {
 public:
  std::int64_t Perform(const IoCommand& command) {
    order.push_back(command.offset / 4096);
    if (order.size() == 1) return -EAGAIN;
    if (order.size() == 2) {
      second_begun.count_down();
      second_may_end.wait();
    }
    return file.Perform(command);
  }

  testing::MemoryFile file{std::size_t{4} * 4096};
  std::vector<std::uint64_t> order;  ///< slots in order
  std::latch second_begun{1};
  std::latch second_may_end{1};
};

TEST(RetryTest, AWriteThatIsHastenedBetweenItsAttemptsGoesFirst) {
  RefusingThread disk;
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  auto engine = BlockingEngine::Create({.name = "refusing", .threads = 1, .cpus = {}},
                                       [&disk](const IoCommand& c) { return disk.Perform(c); });
  auto timer = std::make_unique<HeldTimer>();
  HeldTimer& later = *timer;
  const auto store = AssemblePageStore({.page_bytes = 4096, .slots = 4},
                                       {.engine = *std::move(engine), .timer = std::move(timer)},
                                       workers);
  std::vector<std::unique_ptr<PageBuffer>> pages;
  std::vector<std::future<absl::Status>> written;
  const auto write = [&](SlotIndex slot) {
    pages.push_back(std::make_unique<PageBuffer>(4096));
    pages.back()->Fill(slot);
    const auto done = std::make_shared<std::promise<absl::Status>>();
    written.push_back(done->get_future());
    store->Write(slot, {1, slot, 1}, pages.back()->span(), [done](absl::Status status) {
      done->set_value(std::move(status));
    });
  };
  write(0);
  later.WaitForJob();
  store->Hasten(0);
  write(1);
  disk.second_begun.wait();
  write(2);
  later.RunAll();
  disk.second_may_end.count_down();
  for (std::future<absl::Status>& status : written) EXPECT_THAT(status.get(), testing::IsOk());
  EXPECT_EQ(disk.order, (std::vector<std::uint64_t>{0, 1, 0, 2}));
}

/// A store in memory whose first attempt of one direction does not begin before LetGo.
class SlowIoTest : public ::testing::TestWithParam<IoDirection> {
 protected:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr SlotIndex kSlots = 101;

  void SetUp() override {
    const FaultPlan plan{
        .kind = FaultPlan::Kind::kHeldBefore, .operation = 0, .direction = GetParam()};
    const auto wrap = [this, plan](std::unique_ptr<IoEngine> upstream) {
      auto faulty = std::make_unique<FaultyEngine>(std::move(upstream), plan, kPage);
      engine_ = faulty.get();
      return faulty;
    };
    store_.emplace(
        testing::StoreSpec{.options = {.page_bytes = kPage, .slots = kSlots}, .wrap = wrap});
    if (reads()) WriteAll();
  }
  void TearDown() override { engine_->ReleaseHeld(); }

  bool reads() const { return GetParam() == IoDirection::kRead; }
  std::future<absl::Status> Start(SlotIndex slot, PageBuffer& page) {
    const auto done = std::make_shared<std::promise<absl::Status>>();
    const auto tell = [done](absl::Status status) { done->set_value(std::move(status)); };
    if (reads()) {
      (*store_)->Read(slot, {1, slot, 1}, page.span(), tell);
    } else {
      page.Fill(slot);
      (*store_)->Write(slot, {1, slot, 1}, page.span(), tell);
    }
    return done->get_future();
  }
  void LetGo() { EXPECT_TRUE(engine_->ReleaseHeld()); }

  PageBuffer slow_{kPage};
  PageBuffer other_{kPage};
  /// Declared behind the pages, which it uses until it is destroyed.
  std::optional<StoreUnderTest> store_;

 private:
  void WriteAll() {
    for (SlotIndex slot = 0; slot < kSlots; ++slot) {
      other_.Fill(slot);
      ASSERT_THAT(store_->Write(slot, {1, slot, 1}, other_.span()), testing::IsOk());
    }
  }

  FaultyEngine* engine_ = nullptr;
};

TEST_P(SlowIoTest, AnOvertakenOperationIsNotDoneBeforeItsBytesHaveMoved) {
  std::future<absl::Status> done = Start(0, slow_);
  for (SlotIndex slot = 1; slot < kSlots; ++slot) {
    std::future<absl::Status> overtakes = Start(slot, other_);
    ASSERT_EQ(overtakes.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    ASSERT_THAT(overtakes.get(), testing::IsOk());
  }
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  LetGo();
  EXPECT_THAT(done.get(), testing::IsOk());
  EXPECT_TRUE(slow_.Holds(0));
  EXPECT_THAT(store_->Read(0, {1, 0, 1}, other_.span()), testing::IsOk());
  EXPECT_TRUE(other_.Holds(0));
}

INSTANTIATE_TEST_SUITE_P(Directions,
                         SlowIoTest,
                         ::testing::Values(IoDirection::kRead, IoDirection::kWrite),
                         [](const auto& test) {
                           return test.param == IoDirection::kRead ? "Read" : "Write";
                         });

}  // namespace
}  // namespace sluice::io
