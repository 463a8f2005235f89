#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/mutex.h"

namespace sluice::io {

/// The write-backs of one buffered file, in turns. The kernel tells an error of the medium once, to
/// the first that asks about any bytes of the file. So a page is on the medium only if no error was
/// told between its write and the end of a turn after it. An error in between may be about any of
/// the pages: each is written once more, alone, and then speaks for itself. Threads: any. Source:
/// sync_file_range(2), errseq_t of the kernel.
class WriteBackLine {
 public:
  enum class Turn : std::uint8_t {
    kWriteBack,   ///< the page is to be written back, beside others
    kWriteAgain,  ///< write it again, then have it written back
  };
  enum class Outcome : std::uint8_t { kDone, kFailed };

  class Waiter {
   public:
    /// The page's turn begins, and ends with Leave.
    virtual void TakeTurn(Turn turn) = 0;
    /// The last turn is over, and its outcome holds. May destroy this.
    virtual void EndTurns() = 0;

   protected:
    ~Waiter() = default;

   private:
    friend class WriteBackLine;
    std::uint64_t errors_before_ = 0;
    bool alone_ = false;
  };

  /// Announces the page, before it is written.
  void Begin(Waiter* page);
  /// The page was written, and waits for its turn.
  void Join(Waiter* page);
  /// The turn of one page is over.
  void Leave(Outcome outcome);

 private:
  std::vector<Waiter*> NextTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Waiter*> EndTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Start(const std::vector<Waiter*>& pages);

  base::Mutex mutex_;
  std::uint64_t errors_ ABSL_GUARDED_BY(mutex_) = 0;  ///< turns in which one was told
  std::vector<Waiter*> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiter*> again_ ABSL_GUARDED_BY(mutex_);  ///< each waits for a turn of its own
  std::vector<Waiter*> turn_ ABSL_GUARDED_BY(mutex_);  ///< pages of the current turn
  std::size_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::io
