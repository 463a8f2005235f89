#pragma once

#include "io/io_engine.h"

namespace sluice::io {

/// What waits for an engine. Reads go before writes, because a reader is waiting for each of them,
/// but after kReadsPerWrite reads in a row a waiting write is next: neither side starves.
/// Threads: none of its own, the engine locks.
class RequestQueue {
 public:
  static constexpr int kReadsPerWrite = 4;

  void Push(IoRequest* request);
  /// Null when nothing waits.
  IoRequest* Pop();
  bool empty() const { return reads_.head == nullptr && writes_.head == nullptr; }

 private:
  struct List {
    IoRequest* head = nullptr;
    IoRequest* tail = nullptr;
  };

  static IoRequest* PopFront(List& list);
  bool WriteIsNext() const;

  List reads_;
  List writes_;
  int reads_in_a_row_ = 0;
};

}  // namespace sluice::io
