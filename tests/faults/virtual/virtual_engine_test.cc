#include "tests/faults/virtual/virtual_engine.h"

#include <cerrno>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/faults/cases/counter_loop.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::faults {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 16;

TEST(VirtualClockTest, JobsRunInTheOrderOfTheirTimesThenOfTheirArrival) {
  VirtualClock clock;
  std::vector<int> order;
  for (const int at : {30, 10, 20, 10}) {
    clock.After(std::chrono::microseconds(at),
                [&order, at, n = static_cast<int>(order.size())] { order.push_back(at + n); });
  }
  clock.After(std::chrono::microseconds(10),
              [&] { clock.After(std::chrono::microseconds(5), [&] { order.push_back(15); }); });
  while (clock.RunNext()) continue;
  EXPECT_EQ(order, (std::vector<int>{10, 10, 15, 20, 30}));
  EXPECT_EQ(clock.now(), std::chrono::microseconds(30));
}

/// A read that notes in which place it completed.
class NotedRead final : public io::IoRequest {
 public:
  NotedRead(const io::IoFile& file, std::size_t page, std::vector<std::size_t>* order)
      : page_(page), order_(order), buffer_(kPage) {
    command = {io::IoDirection::kRead, &file, page * kPage, buffer_.span().data(), kPage};
  }
  void Complete(std::int64_t result) override {
    result_ = result;
    order_->push_back(page_);
  }
  std::int64_t result() const { return result_; }

 private:
  const std::size_t page_;
  std::vector<std::size_t>* const order_;
  testing::PageBuffer buffer_;
  std::int64_t result_ = 0;
};

class VirtualEngineTest : public ::testing::Test {
 protected:
  /// The order in which reads of all pages complete.
  std::vector<std::size_t> ReadAll(const VirtualEngineOptions& options) {
    const io::IoFile file{.bytes = kPages * kPage};
    VirtualEngine engine(clock_, std::make_shared<testing::MemoryFile>(kPages * kPage), options);
    std::vector<std::size_t> order;
    reads_.clear();
    for (std::size_t i = 0; i < kPages; ++i) {
      reads_.push_back(std::make_unique<NotedRead>(file, i, &order));
      EXPECT_TRUE(engine.Submit(reads_.back().get()).ok());
    }
    EXPECT_TRUE(order.empty()) << "nothing completes inside of Submit";
    while (clock_.RunNext()) continue;
    EXPECT_EQ(order.size(), kPages);
    return order;
  }

  VirtualClock clock_;
  std::vector<std::unique_ptr<NotedRead>> reads_;
};

TEST_F(VirtualEngineTest, TheSeedDecidesTheOrder) {
  const std::vector<std::size_t> first = ReadAll({.seed = 1});
  EXPECT_EQ(ReadAll({.seed = 1}), first);
  EXPECT_NE(ReadAll({.seed = 2}), first);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end())) << "out of order";
}

TEST_F(VirtualEngineTest, RequestsOneAtATimeAreInOrder) {
  const std::vector<std::size_t> order = ReadAll({.in_flight_max = 1});
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(VirtualEngineTest, RefusedSubmissionsWaitAndFailAfterAHundredTimes) {
  ReadAll({.refusal = {.error_number = EBUSY, .submission = 3, .times = 99}});
  for (const auto& read : reads_) EXPECT_EQ(read->result(), static_cast<std::int64_t>(kPage));
  ReadAll({.in_flight_max = 4, .refusal = {.error_number = EBUSY, .submission = 3, .times = 100}});
  int refused = 0;
  for (const auto& read : reads_) refused += read->result() == -EBUSY ? 1 : 0;
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 4) << "only what would have been submitted";
}

TEST(TraceRunTest, EqualRunsAreEqualAndOtherSeedsAreNot) {
  const Trace trace = MakeTrace(20, 100);
  RunOptions options;
  const RunOutcome first = RunTrace(trace, options);
  const RunOutcome second = RunTrace(trace, options);
  EXPECT_EQ(first.violation, "");
  EXPECT_EQ(first.fingerprint, second.fingerprint);
  EXPECT_EQ(first.time, second.time);
  EXPECT_EQ(first.attempts, second.attempts);
  options.disk.seed = 2;
  EXPECT_NE(RunTrace(trace, options).time, first.time);
}

TEST(TraceRunTest, ASlowAttemptDelaysTheRun) {
  const Trace trace = MakeTrace(20, 100);
  RunOptions options;
  const RunOutcome quick = RunTrace(trace, options);
  options.plan = {
      .kind = testing::FaultPlan::Kind::kLate, .pause = std::chrono::seconds(1), .operation = 10};
  const RunOutcome slow = RunTrace(trace, options);
  EXPECT_EQ(slow.violation, "");
  EXPECT_GT(slow.time, quick.time);
  EXPECT_GE(slow.time, std::chrono::seconds(1));
}

}  // namespace
}  // namespace sluice::faults
