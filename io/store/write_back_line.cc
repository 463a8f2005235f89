#include "io/store/write_back_line.h"

#include <utility>

#include "base/check.h"

namespace sluice::io {

void WriteBackLine::Begin(Waiter* page) {
  base::MutexLock lock(mutex_);
  page->errors_before_ = errors_;
}

void WriteBackLine::Join(Waiter* page) {
  std::vector<Waiter*> next;
  {
    base::MutexLock lock(mutex_);
    waiting_.push_back(page);
    if (turn_.empty()) next = NextTurn();
  }
  Start(next);
}

void WriteBackLine::Leave(Outcome outcome) {
  std::vector<Waiter*> ended;
  std::vector<Waiter*> next;
  {
    base::MutexLock lock(mutex_);
    SLUICE_CHECK(unfinished_ > 0, "a turn that ends has begun");
    failed_ = failed_ || outcome == Outcome::kFailed;
    if (--unfinished_ > 0) return;
    ended = EndTurn();
    next = NextTurn();
  }
  Start(next);
  // The last call of a page may destroy the line, so nothing follows this loop.
  for (Waiter* page : ended) page->EndTurns();
}

/// Ends the turn. Returns its pages that need no further turn.
std::vector<WriteBackLine::Waiter*> WriteBackLine::EndTurn() {
  if (failed_) ++errors_;
  std::vector<Waiter*> ended;
  for (Waiter* page : std::exchange(turn_, {})) {
    if (page->alone_ || page->errors_before_ == errors_) {
      ended.push_back(page);
    } else {
      page->alone_ = true;
      again_.push_back(page);
    }
  }
  return ended;
}

/// Waiters of the next turn: the first of those that go alone, else all that wait.
std::vector<WriteBackLine::Waiter*> WriteBackLine::NextTurn() {
  if (again_.empty()) {
    turn_ = std::exchange(waiting_, {});
  } else {
    turn_ = {again_.front()};
    again_.pop_front();
  }
  unfinished_ = turn_.size();
  failed_ = false;
  return turn_;
}

void WriteBackLine::Start(const std::vector<Waiter*>& pages) {
  for (Waiter* page : pages) page->TakeTurn(page->alone_ ? Turn::kWriteAgain : Turn::kWriteBack);
}

}  // namespace sluice::io
