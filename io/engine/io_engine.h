#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::io {

/// What every request is aligned to, whatever the file asks for: files that need more are opened
/// buffered, and file systems that check nothing (tmpfs) cannot hide a fault.
inline constexpr std::uint32_t kIoAlignment = 4096;

/// An open file of fixed length that requests name. Lifetime: outlives its requests.
struct IoFile {
  int fd = -1;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = kIoAlignment;  ///< alignment of offset, length and memory
  /// Not O_DIRECT: bytes pass through the page cache.
  bool buffered = false;
};

enum class IoDirection : std::uint8_t {
  kRead,
  kWrite,
  /// No bytes move: what the page cache holds of the range goes to the medium, and the answer (0 or
  /// a negative errno) comes when it is there. Source: sync_file_range(2).
  kWriteBack,
  /// No bytes move: the page cache forgets what is clean of the range. Source: posix_fadvise(2).
  kDropCache,
};

/// Bytes between memory and a file. Only a read changes `data`.
struct IoCommand {
  IoDirection direction = IoDirection::kRead;
  const IoFile* file = nullptr;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  /// Set from when on somebody waits for it: it then goes first whenever it waits, now or when it
  /// is tried again. Null: nobody ever does (a read, and what is dropped after one). Outlives the
  /// request.
  const std::atomic<bool>* hastened = nullptr;
};

/// One attempt of the kernel at a command, owned by the caller and linked into the engine's queue
/// while it waits, so that submitting allocates nothing.
class IoRequest {
 public:
  IoRequest() = default;
  IoRequest(const IoRequest&) = delete;
  IoRequest& operator=(const IoRequest&) = delete;

  /// `result`: bytes moved (any number up to the command's, aligned or not; 0 where none have to
  /// move) or a negative errno.
  /// Runs on a thread of the engine, never inside Submit; must not block; may submit or destroy
  /// this request.
  virtual void Complete(std::int64_t result) = 0;

  IoCommand command;

 protected:
  ~IoRequest() = default;

  /// What is submitted next is another command, not another attempt: its age counts from then on.
  void ForgetAge() { queued_at_.reset(); }

 private:
  friend class IoEngine;
  friend class RequestQueue;
  friend class UringEngine;
  IoRequest* next_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> queued_at_;  ///< time of the first queueing
  bool hastened_ = false;  ///< stays so when it is tried again
  bool alone_ = false;     ///< not to be merged with others: a merged attempt of it failed
};

/// What became of memory that was to be registered.
struct RegisteredMemory {
  std::uint64_t bytes = 0;  ///< bytes registered with the ring
  std::string reason;       ///< why not all; empty when all are
};

/// Performs requests. An engine makes one attempt and reports what the kernel said: retries and
/// short counts are the business of Transfer, so that they are the same for every engine.
/// Threads: Submit from any thread, the engine's own included. Reads overtake writes, but not for
/// ever (see RequestQueue).
class IoEngine {
 public:
  /// REQUIRES: every request has completed.
  virtual ~IoEngine() = default;

  /// Queues `request`; does not block and has no bound of its own: whoever submits bounds what is
  /// outstanding. Every engine is reached through this check, so none sees a request that is
  /// misaligned or outside of its file.
  /// Errors: InvalidArgument (nothing queued, Complete is not called).
  absl::Status Submit(IoRequest* request);

  /// Waiting writes that begin in this range of the file, or whose command says so, go before
  /// everything else: somebody waits for them. What the kernel already has is not affected.
  virtual void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) = 0;

  /// Memory that requests will name again and again: where the engine can it is pinned once, and
  /// not at every request. What is not works as well. Takes milliseconds per GiB. Not from
  /// Complete.
  virtual RegisteredMemory RegisterMemory(std::span<std::byte> memory);
  /// Before the memory is given back, unmapped or mapped anew. What is in flight goes on as it
  /// began: REQUIRES that nothing in flight uses memory that goes. Pieces that are in use stay
  /// counted against the limit of locked memory until they are not.
  virtual void UnregisterMemory(std::span<std::byte> /*memory*/) {}

  virtual std::string_view name() const = 0;
  /// What it works with, for people: of a ring what the kernel granted, else how many threads.
  virtual std::string features() const { return {}; }
  /// Requests that reached the kernel as part of another one.
  virtual std::uint64_t merged() const { return 0; }

 protected:
  virtual void SubmitChecked(IoRequest* request) = 0;
};

/// For sync_file_range: wait for what is on its way, send the rest, wait for that.
inline constexpr unsigned kWriteBackFlags = 7;

struct IoEngineOptions {
  /// Requests that the kernel holds at a time, 1 to 1024.
  std::uint32_t queue_depth = 32;
  /// Waiting requests of one direction that are adjacent in one file become one request of the
  /// kernel, up to this many bytes; 0: none do. Only with io_uring.
  std::uint64_t merge_bytes_max = 0;
  /// Bytes that RegisterMemory pins at most, at a time.
  std::uint64_t registered_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Files that requests will name, known to the ring by number; the rest work as well.
  std::vector<int> files;
  /// Processors for the I/O threads; empty: those that whoever makes the engine may run on. Several
  /// threads may share one of them.
  std::vector<int> cpus;
};

/// One I/O thread that owns a ring. Errors: those of io_uring_queue_init (PermissionDenied,
/// ResourceExhausted, Internal ...) and of a thread that cannot be started: the message is the
/// reason for a fallback. Source: io_uring_setup(2), io_uring_enter(2).
absl::StatusOr<std::unique_ptr<IoEngine>> MakeUringEngine(const IoEngineOptions& options);

/// pread and pwrite on min(queue_depth, 16) threads. Errors: ResourceExhausted (no threads).
absl::StatusOr<std::unique_ptr<IoEngine>> MakeThreadEngine(const IoEngineOptions& options);

}  // namespace sluice::io
