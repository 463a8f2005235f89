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

/// Alignment of every request, whatever the file asks for. Files that need more are opened
/// buffered. File systems that check nothing (tmpfs) cannot hide a fault.
inline constexpr std::uint32_t kIoAlignment = 4096;

/// An open file of fixed length that requests name. Lifetime: outlives its requests.
struct IoFile {
  int fd = -1;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = kIoAlignment;  ///< alignment of offset, length and memory
  /// Whether bytes pass through the page cache, without O_DIRECT.
  bool buffered = false;
};

enum class IoDirection : std::uint8_t {
  kRead,
  kWrite,
  /// Write-back: bytes of the range in the page cache go to the medium. The answer (0 or a negative
  /// errno) comes when they are there. Source: sync_file_range(2).
  kWriteBack,
  /// Drop: the page cache forgets the clean bytes of the range. Source: posix_fadvise(2).
  kDropCache,
};

/// Bytes between memory and a file. A read alone changes `data`.
struct IoCommand {
  IoDirection direction = IoDirection::kRead;
  const IoFile* file = nullptr;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  /// Flag that is set once somebody waits for the command. The command then goes first whenever it
  /// waits, now or when it is tried again. Null: nobody ever waits (a read, and a drop after one).
  /// Outlives the request.
  const std::atomic<bool>* hastened = nullptr;
};

/// An attempt of the kernel at a command. The caller owns it, and the engine's queue links it while
/// it waits, so that submitting allocates nothing.
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

  /// Tells that the next submission is another command, not another attempt: its age counts from
  /// then on.
  void ForgetAge() { queued_at_.reset(); }

 private:
  friend class IoEngine;
  friend class RequestQueue;
  friend class UringEngine;
  IoRequest* next_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> queued_at_;  ///< time of the first queueing
  bool hastened_ = false;  ///< stays so when it is tried again
  bool alone_ = false;     ///< true after a merged attempt failed: never merged again
};

/// Outcome of RegisterMemory.
struct RegisteredMemory {
  std::uint64_t bytes = 0;  ///< bytes registered with the ring
  std::string reason;       ///< reason why not all bytes are registered; empty if all are
};

/// Performs requests. An engine makes one attempt and reports the answer of the kernel. Transfer
/// deals with retries and short counts, so that they are the same for every engine.
/// Threads: Submit from any thread, the engine's own included. Reads overtake writes, but not for
/// ever (see RequestQueue).
class IoEngine {
 public:
  /// REQUIRES: every request has completed.
  virtual ~IoEngine() = default;

  /// Queues `request`; does not block and has no bound of its own: callers bound what is
  /// outstanding. Every request passes this check, so no engine sees one that is misaligned or
  /// outside of its file.
  /// Errors: InvalidArgument (nothing queued, Complete is not called).
  absl::Status Submit(IoRequest* request);

  /// Moves waiting writes before all other requests, if they begin in this range of the file or
  /// their command says so. Requests that the kernel already has stay as they are.
  virtual void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) = 0;

  /// Pins memory that requests will name again and again, once in place of at every request, where
  /// the engine can. Other memory works as well. Takes milliseconds per GiB. Complete must not call
  /// it.
  virtual RegisteredMemory RegisterMemory(std::span<std::byte> memory);
  /// Undoes RegisterMemory, before the memory is given back, unmapped or mapped anew. Pieces in use
  /// stay counted against the limit of locked memory until they are not. REQUIRES: no request in
  /// flight uses memory that goes.
  virtual void UnregisterMemory(std::span<std::byte> /*memory*/) {}

  virtual std::string_view name() const = 0;
  /// Features for people: what the kernel granted to a ring, else the number of threads.
  virtual std::string features() const { return {}; }
  /// Requests that reached the kernel as part of another one.
  virtual std::uint64_t merged() const { return 0; }

 protected:
  virtual void SubmitChecked(IoRequest* request) = 0;
};

/// Requests that the kernel holds whatever bytes they move, where queue_depth allows.
inline constexpr std::uint32_t kRequestsLeast = 2;

/// Flags of sync_file_range: wait for writeback in flight, start that of the rest, wait for it.
inline constexpr unsigned kWriteBackFlags = 7;

struct IoEngineOptions {
  /// Requests that the kernel holds at a time, 1 to 1024.
  std::uint32_t queue_depth = 32;
  /// Bytes in flight at which further requests wait. Two may be in flight whatever their bytes.
  std::uint64_t bytes_in_flight_max = std::numeric_limits<std::uint64_t>::max();
  /// Largest request, in bytes, that io_uring makes of several waiting ones. Only requests of one
  /// direction that are adjacent in one file are merged. 0: no request is merged.
  std::uint64_t merge_bytes_max = 0;
  /// Bytes that RegisterMemory pins at most, at a time.
  std::uint64_t registered_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Files that requests will name, known to the ring by number; the rest work as well.
  std::vector<int> files;
  /// Processors for the I/O threads; empty: those of the thread that makes the engine. Several
  /// threads may share one of them.
  std::vector<int> cpus;
};

/// An I/O thread that owns a ring. Errors: those of io_uring_queue_init (PermissionDenied,
/// ResourceExhausted, Internal ...) and of a thread that cannot be started: the message is the
/// reason for a fallback. Source: io_uring_setup(2), io_uring_enter(2).
absl::StatusOr<std::unique_ptr<IoEngine>> MakeUringEngine(const IoEngineOptions& options);

/// pread and pwrite on min(queue_depth, 16) threads. Errors: ResourceExhausted (no threads).
absl::StatusOr<std::unique_ptr<IoEngine>> MakeThreadEngine(const IoEngineOptions& options);

}  // namespace sluice::io
