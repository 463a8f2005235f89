#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"

namespace sluice::io {

/// What a stored page is: its checksum is bound to all three, so a stale, misdirected, torn or zeroed
/// page never passes for it.
struct PageIdentity {
  std::uint64_t segment = 0;
  std::uint64_t page = 0;
  std::uint64_t generation = 0;
};

using SlotIndex = std::uint32_t;
using DoneFn = absl::AnyInvocable<void(absl::Status)>;

struct PageStoreOptions {
  /// Existing directory that belongs to the user and is not writable by group or others, or empty:
  /// /var/tmp/sluice-<uid>, made 0700.
  std::string directory;
  std::uint64_t page_bytes = 0;
  SlotIndex slots = 0;
  std::uint32_t queue_depth = 32;
  bool require_io_uring = false;
  bool require_direct = false;
  bool disable_io_uring = false;
  bool disable_direct = false;
  /// Attempts per request before a transient error (EINTR, EAGAIN, EIO on read) becomes final.
  int attempts_max = 4;
  /// Processors for the I/O thread; empty: any.
  std::vector<int> cpus;
};

struct PageStoreStats {
  std::string engine;        ///< "io_uring", "threads", "memory"
  std::string engine_reason; ///< why not io_uring; empty when it is
  bool direct = false;
  std::string direct_reason; ///< why not O_DIRECT; empty when it is
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t short_io = 0;
  std::uint64_t retries = 0;
  std::uint64_t checksum_failures = 0;
};

/// Pages in the slots of one preallocated, nameless file (O_TMPFILE, 0600), scratch by design: nothing
/// survives the process. Bytes move on one I/O thread; hashing runs on `workers`, never there.
/// A slot is written and read whole. Slots are chosen by the caller.
/// Threads: all methods from any thread; `done` runs on an internal thread, must not block and may
/// submit. Align: buffers at 4096 bytes, checked.
class PageStore {
 public:
  /// `workers` outlives the store. Errors: InvalidArgument (options), NotFound, PermissionDenied
  /// (directory foreign, a symlink or writable by others), ResourceExhausted (disk full: leaves nothing
  /// behind), FailedPrecondition (a forbidden fallback).
  static absl::StatusOr<std::unique_ptr<PageStore>> Create(const PageStoreOptions& options,
                                                           base::WorkerPool& workers);
  virtual ~PageStore() = default;  ///< drains

  /// Writes `data` (one page) into `slot` and records its checksum. `data` must not change until
  /// `done`. On error the slot holds nothing and the caller's bytes are the only copy.
  /// Errors: ResourceExhausted (ENOSPC, EDQUOT, EFBIG), Unavailable (transient, attempts used up),
  /// Internal (EIO and others).
  virtual void Write(SlotIndex slot, const PageIdentity& identity, std::span<const std::byte> data,
                     DoneFn done) = 0;
  /// Reads a slot and verifies it against `identity`: one re-read on mismatch, then DataLoss.
  /// Errors: DataLoss, NotFound (nothing acknowledged in the slot), Unavailable, Internal.
  virtual void Read(SlotIndex slot, const PageIdentity& identity, std::span<std::byte> data,
                    DoneFn done) = 0;
  /// Forgets a slot's checksum, so that what it held cannot be read again. No I/O.
  virtual void Forget(SlotIndex slot) = 0;

  virtual PageStoreStats stats() const = 0;
};

}  // namespace sluice::io
