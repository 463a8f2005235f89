#pragma once

#include <liburing.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::io {

struct RingOptions {
  std::uint32_t entries = 0;
  /// Files that the ring knows by number: their places in this list.
  std::vector<int> files;
};

/// Features that the kernel granted.
struct RingInfo {
  bool files_registered = false;
  bool buffers_reserved = false;  ///< see RingBuffers
  std::string features;           ///< features for people
};

/// Makes a ring that belongs to the calling thread and is not inherited by child processes. The
/// ring only reads, writes, and writes back or drops what the page cache holds (sync_file_range,
/// fadvise); older kernels restrict less. Errors: those of io_uring_queue_init and io_uring_enter
/// (a filter may refuse that alone), Unimplemented (one of these operations).
/// Source: io_uring_setup(2), io_uring_register(2), io_uring_enter(2).
absl::StatusOr<RingInfo> CreateRing(const RingOptions& options, io_uring* ring);

/// Ends a ring that CreateRing has made, on the same thread. The files are let go at once: the
/// kernel ends the rest of a ring some 50 ms after it is closed.
void CloseRing(io_uring* ring);

}  // namespace sluice::io
