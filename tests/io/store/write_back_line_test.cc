#include "io/store/write_back_line.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

class ListedPage final : public WriteBackLine::Waiter {
 public:
  void TakeTurn(WriteBackLine::Turn turn) override { turns.push_back(turn); }
  void EndTurns() override { ++ended; }

  std::vector<WriteBackLine::Turn> turns;
  int ended = 0;
};

class WriteBackLineTest : public ::testing::Test {
 protected:
  using Turn = WriteBackLine::Turn;
  using Outcome = WriteBackLine::Outcome;

  void BeginAll() {
    for (ListedPage* page : {&a_, &b_, &c_}) line_.Begin(page);
  }

  const std::vector<Turn> once_{Turn::kWriteBack};
  const std::vector<Turn> twice_{Turn::kWriteBack, Turn::kWriteAgain};
  WriteBackLine line_;
  ListedPage a_, b_, c_;
};

TEST_F(WriteBackLineTest, WaitingPagesGoTogetherAndEndTogether) {
  BeginAll();
  line_.Join(&a_);
  line_.Join(&b_);
  line_.Join(&c_);
  EXPECT_EQ(a_.turns, once_);
  EXPECT_TRUE(b_.turns.empty()) << "the turn of b has not come";
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(a_.ended, 1);
  EXPECT_EQ(b_.turns, once_);
  EXPECT_EQ(c_.turns, once_);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(b_.ended + c_.ended, 0) << "an error may yet be told";
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(b_.ended, 1);
  EXPECT_EQ(c_.ended, 1);
}

TEST_F(WriteBackLineTest, AnErrorMayBeThatOfAllThatWereBeingWritten) {
  BeginAll();
  line_.Join(&a_);
  line_.Join(&b_);
  line_.Leave(Outcome::kFailed);
  EXPECT_EQ(a_.ended, 0);
  EXPECT_EQ(a_.turns, twice_);
  EXPECT_TRUE(b_.turns.empty()) << "a is alone";
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(a_.ended, 1);
  EXPECT_EQ(b_.turns, once_);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(b_.ended, 0) << "the error may have been its own";
  EXPECT_EQ(b_.turns, twice_);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(b_.ended, 1);
  line_.Join(&c_);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(c_.turns, twice_) << "the write of c had begun";
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(c_.ended, 1);
  ListedPage later;
  line_.Begin(&later);
  line_.Join(&later);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(later.turns, once_);
  EXPECT_EQ(later.ended, 1);
}

TEST_F(WriteBackLineTest, AnErrorOfOneIsOneOfItsTurn) {
  BeginAll();
  line_.Join(&c_);
  line_.Join(&a_);
  line_.Join(&b_);
  line_.Leave(Outcome::kDone);
  line_.Leave(Outcome::kFailed);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(c_.ended, 1);
  EXPECT_EQ(a_.ended + b_.ended, 0);
  EXPECT_EQ(a_.turns, twice_);
  EXPECT_EQ(b_.turns, once_) << "a is alone";
  line_.Leave(Outcome::kFailed);
  EXPECT_EQ(a_.ended, 1) << "the last error is a's own";
  EXPECT_EQ(b_.turns, twice_);
  line_.Leave(Outcome::kDone);
  EXPECT_EQ(b_.ended, 1);
}

}  // namespace
}  // namespace sluice::io
