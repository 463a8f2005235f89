#pragma once

#include <chrono>
#include <cstdint>

#include "io/engine/io_engine.h"

namespace sluice::io {

/// Requests that wait for an engine. Reads go before writes, because a reader is waiting for each
/// of them. Three kinds of writes go before reads:
/// - a write that somebody waits for (Hasten).
/// - a write that has waited for kWriteAgeMax since it was first asked for; one that is tried again
///   keeps its age.
/// - a write after kReadsPerWrite reads in a row.
/// Nobody starves: writes that overtake reads stop after kWritesPerRead in a row, and after as many
/// of the first kind one of the second goes. A drop from the page cache after a read goes with the
/// reads.
/// Threads: none of its own, the engine locks.
class RequestQueue {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr int kReadsPerWrite = 4;
  static constexpr int kWritesPerRead = 4;
  static constexpr std::chrono::milliseconds kWriteAgeMax{20};

  void Push(IoRequest* request, Clock::time_point now);
  /// Null when nothing waits.
  IoRequest* Pop(Clock::time_point now);
  /// Takes what Pop would, if it continues `before`: same direction, same file, at its end, and
  /// both may be merged. Returns null otherwise.
  IoRequest* PopAdjacent(const IoRequest& before, Clock::time_point now);
  /// Moves waiting writes before all other requests, if they begin in the range of the file or
  /// their command has been hastened.
  void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes);
  bool empty() const {
    return reads_.head == nullptr && writes_.head == nullptr && hastened_.head == nullptr;
  }

 private:
  struct List {
    IoRequest* head = nullptr;
    IoRequest* tail = nullptr;
  };

  static void PushBack(List& list, IoRequest* request);
  static void PushByAge(List& list, IoRequest* request);
  static IoRequest* PopFront(List& list);
  List& ListFor(const IoRequest& request);
  bool WriteIsNext(Clock::time_point now) const;
  bool HasOverdue(Clock::time_point now) const;
  bool HastenedIsNext(Clock::time_point now) const;
  List* NextList(Clock::time_point now);
  IoRequest* PopFrom(List& list);

  List reads_;
  List writes_;
  List hastened_;
  int reads_in_a_row_ = 0;
  int writes_in_a_row_ = 0;
  int hastened_in_a_row_ = 0;  ///< hastened writes in a row, among the writes
};

}  // namespace sluice::io
