#include "io/request_queue.h"

#include "io/mutants.h"

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
  request->queued_at_ = now;
  request->hastened_ = request->hastened_ || IsHastened(request->command);
  List& writes = request->hastened_ ? hastened_ : writes_;
  PushBack(request->command.direction == IoDirection::kRead ? reads_ : writes, request);
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
  if (WriteIsNext(now)) return hastened_.head != nullptr ? &hastened_ : &writes_;
  return reads_.head != nullptr ? &reads_ : nullptr;
}

bool RequestQueue::WriteIsNext(Clock::time_point now) const {
  if (hastened_.head == nullptr && writes_.head == nullptr) return false;
  if (reads_.head == nullptr) return true;
  if (writes_in_a_row_ >= kWritesPerRead && !SLUICE_MUTANT("writes-starve-reads")) return false;
  const bool overdue = writes_.head != nullptr && now - writes_.head->queued_at_ >= kWriteAgeMax &&
                       !SLUICE_MUTANT("old-writes-wait");
  return hastened_.head != nullptr || overdue || reads_in_a_row_ >= kReadsPerWrite;
}

IoRequest* RequestQueue::PopFrom(List& list) {
  const bool read = &list == &reads_;
  reads_in_a_row_ = read ? reads_in_a_row_ + 1 : 0;
  writes_in_a_row_ = read ? 0 : writes_in_a_row_ + 1;
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

IoRequest* RequestQueue::PopFront(List& list) {
  IoRequest* request = list.head;
  list.head = request->next_;
  if (list.head == nullptr) list.tail = nullptr;
  request->next_ = nullptr;
  return request;
}

}  // namespace sluice::io
