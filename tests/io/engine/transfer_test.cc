#include "io/engine/transfer.h"

#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "io/engine/request_queue.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::io {
namespace {

using Kind = TransferResult::Kind;

/// An engine that answers attempts from a list, and remembers the requests.
class ScriptedEngine final : public IoEngine {
 public:
  explicit ScriptedEngine(std::vector<std::int64_t> results) : results_(std::move(results)) {}

  void Hasten(const IoFile&, std::uint64_t, std::uint64_t) override {}
  std::string_view name() const override { return "scripted"; }
  void RunAll() {
    while (!waiting_.empty()) {
      IoRequest* request = waiting_.front();
      waiting_.pop_front();
      request->Complete(results_.at(asked.size() - 1));
    }
  }

  std::vector<IoCommand> asked;

 protected:
  void SubmitChecked(IoRequest* request) override {
    asked.push_back(request->command);
    waiting_.push_back(request);
  }

 private:
  const std::vector<std::int64_t> results_;
  std::deque<IoRequest*> waiting_;
};

/// Runs jobs at once, and remembers after which pause they were wanted.
class RecordedTimer final : public base::Timer {
 public:
  RecordedTimer() : base::Timer("unused") {}
  bool After(std::chrono::microseconds pause, Job job) override {
    pauses.push_back(pause);
    std::move(job)();
    return true;
  }
  std::vector<std::chrono::microseconds> pauses;
};

class RecordedTransfer final : public Transfer {
 public:
  using Transfer::Transfer;
  std::optional<TransferResult> result;

 private:
  void OnTransferred(const TransferResult& outcome) override { result = outcome; }
};

/// Keeps requests in a queue, at a time of the test's.
class QueueEngine final : public IoEngine {
 public:
  void Hasten(const IoFile&, std::uint64_t, std::uint64_t) override {}
  std::string_view name() const override { return "queue"; }

  RequestQueue queue;
  RequestQueue::Clock::time_point now;

 protected:
  void SubmitChecked(IoRequest* request) override { queue.Push(request, now); }
};

class TransferTest : public ::testing::Test {
 protected:
  TransferResult Run(IoDirection direction, const std::vector<std::int64_t>& results) {
    ScriptedEngine engine(results);
    RecordedTimer timer;
    RecordedTransfer transfer(
        engine, counters_, {.attempts_max = 3, .first_pause = std::chrono::milliseconds(1)}, timer);
    transfer.StartTransfer({.direction = direction,
                            .file = &file_,
                            .offset = 8192,
                            .data = page_.span().data(),
                            .bytes = 16384});
    engine.RunAll();
    asked_ = engine.asked;
    pauses_ = timer.pauses;
    EXPECT_EQ(asked_.size(), results.size()) << "attempts";
    return transfer.result.value();
  }
  void ExpectAsked(std::size_t attempt, std::uint64_t done) {
    EXPECT_EQ(asked_.at(attempt).offset, 8192 + done);
    EXPECT_EQ(asked_.at(attempt).bytes, 16384 - done);
    EXPECT_EQ(asked_.at(attempt).data, page_.span().data() + done);
  }

  const IoFile file_{.fd = -1, .bytes = 65536};
  testing::PageBuffer page_{16384};
  TransferCounters counters_;
  std::vector<IoCommand> asked_;
  std::vector<std::chrono::microseconds> pauses_;
};

TEST_F(TransferTest, OneAttemptMovesAll) {
  EXPECT_EQ(Run(IoDirection::kRead, {16384}).kind, Kind::kDone);
  EXPECT_EQ(counters_.short_io, 0U);
  EXPECT_EQ(counters_.retries, 0U);
}

TEST_F(TransferTest, AShortCountGoesOnFromItsLastAlignedByte) {
  for (const IoDirection direction : {IoDirection::kRead, IoDirection::kWrite}) {
    EXPECT_EQ(Run(direction, {4700, 4096, 8191, 4096}).kind, Kind::kDone);
    ExpectAsked(0, 0);
    ExpectAsked(1, 4096);
    ExpectAsked(2, 8192);
    ExpectAsked(3, 12288);
  }
  EXPECT_EQ(counters_.short_io, 6U);
  EXPECT_EQ(counters_.retries, 0U);
}

TEST_F(TransferTest, ShortCountsWithoutABlockAreBounded) {
  EXPECT_EQ(Run(IoDirection::kRead, {4095, 1, 512}).kind, Kind::kTruncated);
  EXPECT_EQ(counters_.retries, 2U);
}

TEST_F(TransferTest, NothingBeforeTheEndIsTruncatedAtOnce) {
  EXPECT_EQ(Run(IoDirection::kRead, {0}).kind, Kind::kTruncated);
  EXPECT_EQ(Run(IoDirection::kRead, {8192, 0}).kind, Kind::kTruncated);
  EXPECT_EQ(Run(IoDirection::kWrite, {0}).kind, Kind::kTruncated);
}

TEST_F(TransferTest, TransientErrorsAreTriedAgainFromWhereTheyCame) {
  EXPECT_EQ(Run(IoDirection::kRead, {4096, -EAGAIN, -EINTR, 12288}).kind, Kind::kDone);
  ExpectAsked(2, 4096);
  EXPECT_EQ(Run(IoDirection::kRead, {-EIO, -ENOMEM, 16384}).kind, Kind::kDone);
  EXPECT_EQ(Run(IoDirection::kWrite, {-EAGAIN, -ENOMEM, 16384}).kind, Kind::kDone);
  EXPECT_EQ(counters_.retries, 6U);
  EXPECT_EQ(Run(IoDirection::kWrite, {-ECANCELED, 16384}).kind, Kind::kDone);
}

TEST_F(TransferTest, AttemptsAreApartByPausesThatGrow) {
  Run(IoDirection::kWrite, {-EAGAIN, 8192, -ENOMEM, 8192});
  EXPECT_EQ(pauses_,
            (std::vector<std::chrono::microseconds>{std::chrono::milliseconds(1),
                                                    std::chrono::milliseconds(4)}));
}

TEST_F(TransferTest, EveryErrorOfAReadIsTriedAgain) {
  EXPECT_EQ(Run(IoDirection::kRead, {-EIO, -EBADF, 16384}).kind, Kind::kDone);
  EXPECT_EQ(Run(IoDirection::kRead, {-EIO, -ENODATA, -EIO}).error_number, EIO);
}

TEST_F(TransferTest, OneErrorOfTheMediumAfterOthersIsNotItsLastWord) {
  for (const std::vector<std::int64_t>& results : std::vector<std::vector<std::int64_t>>{
           {-EAGAIN, -ENOMEM, -EIO}, {-EIO, -ENOMEM, -EILSEQ}, {-EIO, -ENOMEM, 512}}) {
    const TransferResult result = Run(IoDirection::kRead, results);
    EXPECT_EQ(result.kind, Kind::kFailed);
    EXPECT_EQ(result.error_number, ENOMEM);
    EXPECT_EQ(result.attempts, 3);
  }
  EXPECT_EQ(Run(IoDirection::kRead, {-EIO, -EIO, -EIO}).error_number, EIO)
      << "the error before is another transfer's";
}

TEST_F(TransferTest, TransientErrorsAreFinalAtTheBound) {
  const TransferResult result = Run(IoDirection::kRead, {-EAGAIN, -EINTR, -EAGAIN});
  EXPECT_EQ(result.kind, Kind::kFailed);
  EXPECT_EQ(result.error_number, EAGAIN);
  EXPECT_EQ(result.attempts, 3);
}

TEST_F(TransferTest, OtherErrorsAreFinalAtOnce) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EFBIG, EBADF}) {
    const TransferResult result = Run(IoDirection::kWrite, {-error});
    EXPECT_EQ(result.kind, Kind::kFailed);
    EXPECT_EQ(result.error_number, error);
    EXPECT_EQ(result.attempts, 1);
  }
}

/// The kernel tells it once: the next attempt would hear of no error.
TEST_F(TransferTest, AnyErrorOfAWriteBackIsFinal) {
  for (const int error : {EIO, ENOSPC, ENOMEM, EAGAIN, EINTR}) {
    const TransferResult result = Run(IoDirection::kWriteBack, {-error});
    EXPECT_EQ(result.kind, Kind::kFailed);
    EXPECT_EQ(result.error_number, error);
  }
}

// A transfer object that moves bytes again starts with age 0.
TEST_F(TransferTest, EachTransferHasItsOwnAge) {
  alignas(4096) static std::byte page[4096];
  QueueEngine engine;
  RecordedTimer timer;
  RecordedTransfer write(engine, counters_, {}, timer);
  RecordedTransfer read(engine, counters_, {}, timer);
  const auto command = [&](IoDirection direction) {
    return IoCommand{.direction = direction, .file = &file_, .data = page, .bytes = sizeof(page)};
  };
  write.StartTransfer(command(IoDirection::kWrite));
  engine.queue.Pop(engine.now)->Complete(sizeof(page));
  engine.now += std::chrono::seconds(1);
  write.StartTransfer(command(IoDirection::kWrite));
  read.StartTransfer(command(IoDirection::kRead));
  EXPECT_EQ(engine.queue.Pop(engine.now)->command.direction, IoDirection::kRead);
  EXPECT_EQ(engine.queue.Pop(engine.now)->command.direction, IoDirection::kWrite);
}

}  // namespace
}  // namespace sluice::io
