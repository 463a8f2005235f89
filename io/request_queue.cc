#include "io/request_queue.h"

namespace sluice::io {

void RequestQueue::Push(IoRequest* request) {
  List& list = request->command.direction == IoDirection::kRead ? reads_ : writes_;
  request->next_ = nullptr;
  if (list.tail == nullptr) {
    list.head = request;
  } else {
    list.tail->next_ = request;
  }
  list.tail = request;
}

IoRequest* RequestQueue::Pop() {
  if (WriteIsNext()) {
    reads_in_a_row_ = 0;
    return PopFront(writes_);
  }
  if (reads_.head == nullptr) return nullptr;
  ++reads_in_a_row_;
  return PopFront(reads_);
}

bool RequestQueue::WriteIsNext() const {
  if (writes_.head == nullptr) return false;
  return reads_.head == nullptr || reads_in_a_row_ >= kReadsPerWrite;
}

IoRequest* RequestQueue::PopFront(List& list) {
  IoRequest* request = list.head;
  list.head = request->next_;
  if (list.head == nullptr) list.tail = nullptr;
  request->next_ = nullptr;
  return request;
}

}  // namespace sluice::io
