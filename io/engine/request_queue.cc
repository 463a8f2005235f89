#include "io/engine/request_queue.h"

namespace sluice::io {
namespace {

bool Continues(const IoRequest& next, const IoRequest& before) {
  const IoCommand& a = before.command;
  const IoCommand& b = next.command;
  const bool moves = a.direction == IoDirection::kRead || a.direction == IoDirection::kWrite;
  return moves && b.direction == a.direction && b.file == a.file && b.offset == a.offset + a.bytes;
}

bool BeginsWithin(const IoCommand& command,
                  const IoFile& file,
                  std::uint64_t offset,
                  std::uint64_t bytes) {
  return command.file == &file && command.offset >= offset && command.offset - offset < bytes;
}

bool IsHastened(const IoCommand& command) {
  return command.hastened != nullptr && command.hastened->load(std::memory_order_relaxed);
}

}  // namespace

void RequestQueue::Push(IoRequest* request, Clock::time_point now) {
  if (!request->queued_at_.has_value()) request->queued_at_ = now;
  request->hastened_ = request->hastened_ || IsHastened(request->command);
  List& list = ListFor(*request);
  if (&list == &writes_) {
    PushByAge(list, request);
  } else {
    PushBack(list, request);
  }
}

RequestQueue::List& RequestQueue::ListFor(const IoRequest& request) {
  const IoDirection direction = request.command.direction;
  if (direction == IoDirection::kRead) return reads_;
  if (request.hastened_) return hastened_;
  // A drop of cached pages for a read counts as a read, unless it is hastened. The read ends after
  // it.
  const bool of_a_read = direction == IoDirection::kDropCache && !request.command.hastened;
  return of_a_read ? reads_ : writes_;
}

IoRequest* RequestQueue::Pop(Clock::time_point now) {
  List* const list = NextList(now);
  return list == nullptr ? nullptr : PopFrom(*list);
}

IoRequest* RequestQueue::PopAdjacent(const IoRequest& before, Clock::time_point now) {
  List* const list = NextList(now);
  if (list == nullptr || before.alone_ || list->head->alone_) return nullptr;
  return Continues(*list->head, before) ? PopFrom(*list) : nullptr;
}

void RequestQueue::Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) {
  List rest;
  while (writes_.head != nullptr) {
    IoRequest* const request = PopFront(writes_);
    request->hastened_ =
        IsHastened(request->command) || BeginsWithin(request->command, file, offset, bytes);
    PushBack(request->hastened_ ? hastened_ : rest, request);
  }
  writes_ = rest;
}

RequestQueue::List* RequestQueue::NextList(Clock::time_point now) {
  if (WriteIsNext(now)) return HastenedIsNext(now) ? &hastened_ : &writes_;
  return reads_.head != nullptr ? &reads_ : nullptr;
}

bool RequestQueue::WriteIsNext(Clock::time_point now) const {
  if (hastened_.head == nullptr && writes_.head == nullptr) return false;
  if (reads_.head == nullptr) return true;
  if (writes_in_a_row_ >= kWritesPerRead) return false;
  return hastened_.head != nullptr || HasOverdue(now) || reads_in_a_row_ >= kReadsPerWrite;
}

bool RequestQueue::HasOverdue(Clock::time_point now) const {
  return writes_.head != nullptr && now - *writes_.head->queued_at_ >= kWriteAgeMax;
}

/// REQUIRES: a write waits.
bool RequestQueue::HastenedIsNext(Clock::time_point now) const {
  if (hastened_.head == nullptr) return false;
  return !HasOverdue(now) || hastened_in_a_row_ < kWritesPerRead;
}

IoRequest* RequestQueue::PopFrom(List& list) {
  const bool read = &list == &reads_;
  reads_in_a_row_ = read ? reads_in_a_row_ + 1 : 0;
  writes_in_a_row_ = read ? 0 : writes_in_a_row_ + 1;
  if (!read) hastened_in_a_row_ = &list == &hastened_ ? hastened_in_a_row_ + 1 : 0;
  return PopFront(list);
}

void RequestQueue::PushBack(List& list, IoRequest* request) {
  request->next_ = nullptr;
  if (list.tail == nullptr) {
    list.head = request;
  } else {
    list.tail->next_ = request;
  }
  list.tail = request;
}

/// Inserts the request behind those that are as old. It is almost always the last: only retried
/// requests are older.
void RequestQueue::PushByAge(List& list, IoRequest* request) {
  if (list.tail == nullptr || list.tail->queued_at_ <= request->queued_at_) {
    return PushBack(list, request);
  }
  IoRequest** link = &list.head;
  while ((*link)->queued_at_ <= request->queued_at_) link = &(*link)->next_;
  request->next_ = *link;
  *link = request;
}

IoRequest* RequestQueue::PopFront(List& list) {
  IoRequest* request = list.head;
  list.head = request->next_;
  if (list.head == nullptr) list.tail = nullptr;
  request->next_ = nullptr;
  return request;
}

}  // namespace sluice::io
