#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/timer.h"
#include "base/worker_pool.h"
#include "io/file/file_fill.h"
#include "sluice/stats.h"
#include "sluice/use.h"

namespace sluice::io {

/// Identity of a stored page. The checksum is bound to all three, so a stale, misdirected, torn or
/// zeroed page never passes for it.
struct PageIdentity {
  std::uint64_t segment = 0;
  std::uint64_t page = 0;
  std::uint64_t generation = 0;
  friend constexpr bool operator==(const PageIdentity&, const PageIdentity&) = default;
};

using SlotIndex = std::uint32_t;
using DoneFn = absl::AnyInvocable<void(absl::Status)>;

struct SpillDirectory;

struct PageStoreOptions {
  /// Existing directory that belongs to the user and is not writable by group or others, or empty:
  /// /var/tmp/sluice-<uid>, made 0700.
  std::string directory;
  /// The directory, opened; unless null it takes the place of `directory`.
  std::shared_ptr<const SpillDirectory> opened;
  std::uint64_t page_bytes = 0;  ///< a power of two, 4 KiB to 64 MiB
  SlotIndex slots = 0;
  /// Pages that the files hold together. 0: one per slot, and the spare ones of WithSpares.
  SlotIndex places = 0;
  /// Number of files that share the places, at most 64; 0: one for each GiB, at most 4.
  std::uint32_t files = 0;
  /// Requests that the kernel holds at a time, 1 to 1024.
  std::uint32_t queue_depth = 32;
  /// IoEngineOptions::bytes_in_flight_max.
  std::uint64_t bytes_in_flight_max = std::numeric_limits<std::uint64_t>::max();
  /// Bytes up to which io_uring makes one request of waiting ones of adjacent slots; 0: none.
  std::uint64_t merge_bytes_max = std::uint64_t{1} << 20;
  /// Bytes of memory that the ring pins at most (RegisterMemory).
  std::uint64_t registered_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Free space of the file system that is left alone: Create fails before it takes that.
  std::uint64_t keep_free_bytes = 0;
  /// Reads and writes between their call and the return of `done`; a call beyond them waits.
  std::uint32_t operations_max = 1024;
  Use io_uring = Use::kAuto;
  Use direct = Use::kAuto;
  Use nocow = Use::kAuto;           ///< files whose blocks are written in place
  Use reserved_space = Use::kAuto;  ///< space that the file system promises; else files are filled
  OnFill on_fill;  ///< told by Create, in its thread, of files that are written in full
  /// Question while files are written in full; true: Create gives Cancelled. Empty: never asked.
  std::function<bool()> stop_fill;
  /// Attempts per request, and the pauses between them, before an error that may pass (EINTR,
  /// EAGAIN, ENOMEM, ECANCELED, any of a read) becomes final. Attempts that move bytes do not
  /// count.
  base::Backoff backoff;
  /// Processors for the I/O threads; empty: those of the thread that makes the store.
  std::vector<int> cpus;
  /// Whether this is a drive of a set. Its errors keep their marks (medium_fault.h), which the set
  /// takes off.
  bool marks_errors = false;
};

struct PageStoreStats {
  std::string engine;           ///< "io_uring", "threads", "memory"
  std::string engine_reason;    ///< reason against io_uring; empty if it is used
  std::string engine_features;  ///< see IoEngine::features
  bool direct = false;
  std::string direct_reason;    ///< reason against O_DIRECT, with its drive; empty if all use it
  bool nocow = false;           ///< true if the file system overwrites in place
  std::string nocow_reason;     ///< reason why writes are copied, with the drive; empty: none are
  bool reserved_space = false;  ///< true if fallocate(2) reserved the space of all files
  /// Reason why files were written in full, with the drive; or empty.
  std::string reserved_space_reason;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t short_io = 0;           ///< attempts that moved a part
  std::uint64_t merged = 0;             ///< requests that reached the kernel within another one
  std::uint64_t retries = 0;            ///< attempts repeated because the one before moved nothing
  std::uint64_t checksum_failures = 0;  ///< reads whose bytes did not verify, re-reads included
  std::uint64_t registered_bytes = 0;   ///< bytes of memory that the ring knows (RegisterMemory)
  /// Reason why not all asked for is registered; empty if all is.
  std::string registered_reason;
  std::uint64_t retired = 0;       ///< places that lost a page and are used no more
  std::vector<DriveStats> drives;  ///< drives of the store, one or more

  /// Adds another drive and its counters; a fallback of either is one of both.
  void Add(const PageStoreStats& other);
};

/// Pages in the slots of a few preallocated, nameless files (O_TMPFILE, 0600), scratch by design:
/// nothing survives the process. Bytes move on the I/O threads of an engine; hashing runs on
/// `workers`, never there. A slot is written and read whole. The caller chooses slots; the store
/// chooses a place in the files at each write. A place that loses a page for good is retired: never
/// used again, as there are a few to spare. A place that refuses a page is taken last.
///
/// Threads: all methods from any thread but, outside of `done`, those of `workers`. `done` runs
/// exactly once, on an internal thread (an I/O thread or one of `workers`). It must not block, may
/// call Read, Write and Forget, and must not destroy the store.
///
/// Blocks: Read and Write wait while `operations_max` operations are outstanding, except in `done`;
/// Write waits while the queue of `workers` is full.
///
/// Align: buffers at 4096 bytes, checked.
///
/// fork: a child of fork gets FailedPrecondition from Read and Write, through `done` and before
/// they return; it calls nothing else and destroys nothing.
class PageStore {
 public:
  /// `workers` outlives the store. Errors: InvalidArgument (options), NotFound, PermissionDenied
  /// (directory foreign, a symlink or writable by others), ResourceExhausted (disk full: leaves
  /// nothing behind), FailedPrecondition (a forbidden fallback).
  static absl::StatusOr<std::unique_ptr<PageStore>> Create(const PageStoreOptions& options,
                                                           base::WorkerPool& workers);
  /// Waits until everything outstanding is done. A Read or Write that is done may still be on its
  /// way back to its caller; no other call may.
  virtual ~PageStore() = default;

  /// Writes `data` (one page) into `slot` and records its checksum. `data` must not change until
  /// `done`. The old content of the slot is gone from the call on. A slot whose write failed holds
  /// nothing, and the caller's bytes are the only copy. The slot may be written again after a fault
  /// of the disk. Errors:
  /// - InvalidArgument: slot, size or alignment.
  /// - FailedPrecondition: a read or write of the slot is in flight; what the slot holds stays.
  /// - ResourceExhausted: ENOSPC, EDQUOT, EFBIG; or each place holds a page or is retired.
  /// - Unavailable: transient, attempts used up.
  /// - Internal: EIO and others.
  virtual void Write(SlotIndex slot,
                     const PageIdentity& identity,
                     std::span<const std::byte> data,
                     DoneFn done) = 0;
  /// Reads a slot and verifies it against `identity`: one re-read on mismatch, then DataLoss. An
  /// error leaves the content of `data` undefined. Errors:
  /// - InvalidArgument: as Write.
  /// - DataLoss: other page, checksum, file truncated, or the medium refused every attempt (EIO,
  ///   ENODATA, EILSEQ).
  /// - NotFound: nothing acknowledged in the slot.
  /// - Unavailable, Internal: the slot stays as it is, and a later read may succeed.
  virtual void Read(SlotIndex slot,
                    const PageIdentity& identity,
                    std::span<std::byte> data,
                    DoneFn done) = 0;
  /// Hastens the write of this slot that is in flight, since somebody waits for it. The write goes
  /// before all requests that the kernel does not have yet.
  virtual void Hasten(SlotIndex slot) = 0;
  /// Forgets a slot's checksum, so that its content cannot be read again. A read in flight still
  /// finishes; a write in flight leaves the slot empty. Does no I/O.
  virtual void Forget(SlotIndex slot) = 0;

  /// Pins memory that pages will be read into and written from for long, once in place of at every
  /// request. stats() tells how much of it the engine and the limit of locked memory allow. Takes
  /// milliseconds per GiB. `done` must not call it.
  virtual void RegisterMemory(std::span<std::byte> memory) = 0;
  /// Undoes RegisterMemory, for all of the memory, before it is given back, unmapped or mapped
  /// anew. The ring would go on with the old pages. REQUIRES: no operation uses memory that goes.
  virtual void UnregisterMemory(std::span<std::byte> memory) = 0;

  /// Place of the bytes of a slot.
  struct FilePart {
    int fd = -1;
    std::uint64_t offset = 0;
  };
  /// The part of a file that holds the slot's page, to be mapped for reading until the slot is
  /// forgotten or written again. Such reads are covered by no checksum. Errors: NotFound (nothing
  /// acknowledged in the slot), Unimplemented (CheckMappable fails).
  virtual absl::StatusOr<FilePart> FindPart(SlotIndex slot) const;
  /// OK if slots can be mapped; tries every file once. Errors: Unimplemented (there are no files),
  /// or that of mmap(2), as on a FUSE file system with direct_io.
  virtual absl::Status CheckMappable() const;

  virtual PageStoreStats stats() const = 0;
};

}  // namespace sluice::io
