#pragma once

#include <atomic>
#include <cstdint>

#include "base/timer.h"
#include "io/engine/io_engine.h"

namespace sluice::io {

/// Outcome of a transfer.
struct TransferResult {
  enum class Kind : std::uint8_t {
    kDone,       ///< every byte moved
    kTruncated,  ///< the file ended, or attempts brought no progress
    kFailed,     ///< `error_number` says why
  };
  Kind kind = Kind::kDone;
  int error_number = 0;
  int attempts = 0;  ///< attempts that moved nothing
};

/// Shared by the transfers of one store. Threads: any.
struct TransferCounters {
  std::atomic<std::uint64_t> short_io{0};
  std::atomic<std::uint64_t> retries{0};
};

/// Moves one range whole, or has it written back or dropped, by as many attempts of an engine as
/// that takes. No other class deals with short counts and transient errors.
///
/// - A short count goes on from its last aligned byte (O_DIRECT refuses any other remainder).
/// - EINTR, EAGAIN, ENOMEM and ECANCELED, and every error of a read, which changes nothing, are
///   tried again after a pause: at most `backoff.attempts_max` attempts that move nothing, in all.
///   The pauses are the timer's: other requests go on meanwhile.
/// - An error of a write-back is final: the kernel tells it once, so asking again proves nothing.
/// - A read that comes to that bound fails with an error that was not the medium's (EIO, ENODATA,
///   EILSEQ), if there was one. A page is not lost because the medium was asked once at a bad time.
/// - 0 bytes before the end: the file was truncated.
/// - Everything else is final.
class Transfer : private IoRequest {
 public:
  /// `timer` outlives the transfer.
  Transfer(IoEngine& engine,
           TransferCounters& counters,
           const base::Backoff& backoff,
           base::Timer& timer)
      : engine_(engine), counters_(counters), backoff_(backoff), timer_(timer) {}

  /// May be called again from OnTransferred. REQUIRES: aligned and inside of the file.
  void StartTransfer(const IoCommand& whole);

 protected:
  ~Transfer() = default;

  /// Runs on a thread of the engine; must not block; may destroy this.
  virtual void OnTransferred(const TransferResult& result) = 0;

 private:
  void Complete(std::int64_t result) final;
  bool MovesBytes() const;
  void Advance(std::size_t moved);
  void Fail(int error_number);
  bool IsTransient(int error_number) const;
  void Retry(const TransferResult& otherwise);
  void SubmitRest();

  IoEngine& engine_;
  TransferCounters& counters_;
  const base::Backoff backoff_;
  base::Timer& timer_;
  int attempts_ = 0;
  int passing_error_ = 0;  ///< last errno of a read that was not the medium's
};

}  // namespace sluice::io
