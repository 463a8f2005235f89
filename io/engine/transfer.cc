#include "io/engine/transfer.h"

#include <cerrno>

#include "base/check.h"
#include "io/store/medium_fault.h"

namespace sluice::io {

void Transfer::StartTransfer(const IoCommand& whole) {
  command = whole;
  attempts_ = 0;
  passing_error_ = 0;
  if (MovesBytes()) ForgetAge();
  SubmitRest();
}

void Transfer::SubmitRest() {
  const absl::Status submitted = engine_.Submit(this);
  SLUICE_CHECK(submitted.ok(), "a transfer is aligned and inside of its file");
}

bool Transfer::MovesBytes() const {
  return command.direction == IoDirection::kRead || command.direction == IoDirection::kWrite;
}

void Transfer::Complete(std::int64_t result) {
  if (result == 0 && !MovesBytes()) return OnTransferred({.attempts = attempts_});
  if (result > 0) return Advance(static_cast<std::size_t>(result));
  if (result < 0) return Fail(static_cast<int>(-result));
  OnTransferred({.kind = TransferResult::Kind::kTruncated, .attempts = attempts_ + 1});
}

void Transfer::Advance(std::size_t moved) {
  SLUICE_CHECK(moved <= command.bytes, "the kernel moves no more than it was asked to");
  if (moved == command.bytes) return OnTransferred({.attempts = attempts_});
  counters_.short_io.fetch_add(1, std::memory_order_relaxed);
  const std::size_t progress = moved - moved % command.file->alignment;
  if (progress == 0) return Retry({.kind = TransferResult::Kind::kTruncated});
  command.offset += progress;
  command.data += progress;
  command.bytes -= progress;
  SubmitRest();
}

void Transfer::Fail(int error_number) {
  const TransferResult failed{.kind = TransferResult::Kind::kFailed,
                              .error_number = error_number,
                              .attempts = attempts_ + 1};
  if (!IsTransient(error_number)) return OnTransferred(failed);
  const bool read = command.direction == IoDirection::kRead;
  if (read && !IsMediumErrno(error_number)) passing_error_ = error_number;
  Retry(failed);
}

bool Transfer::IsTransient(int error_number) const {
  if (command.direction == IoDirection::kWriteBack) return false;
  if (command.direction == IoDirection::kRead) return true;
  // ECANCELED: io_uring had no worker thread for the request (ulimit -u), and may have one later.
  return error_number == EINTR || error_number == EAGAIN || error_number == ENOMEM ||
         error_number == ECANCELED;
}

void Transfer::Retry(const TransferResult& otherwise) {
  if (++attempts_ >= backoff_.attempts_max) {
    TransferResult result = otherwise;
    if (passing_error_ != 0) {
      result.kind = TransferResult::Kind::kFailed;
      result.error_number = passing_error_;
    }
    result.attempts = attempts_;
    return OnTransferred(result);
  }
  counters_.retries.fetch_add(1, std::memory_order_relaxed);
  const bool later = timer_.After(backoff_.PauseAfter(attempts_), [this] { SubmitRest(); });
  if (!later) SubmitRest();
}

}  // namespace sluice::io
