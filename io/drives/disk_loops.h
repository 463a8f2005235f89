#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"

namespace sluice::io {

enum class DiskPattern { kRead, kWrite, kMixed };

/// File and memory of a measurement.
struct DiskTarget {
  const IoFile& file;
  std::byte* memory;  ///< one block for each request
  std::uint64_t block_bytes;
  std::uint32_t queue_depth;
};

/// Work of one run: blocks from the start of the file, round and round, until time or count is up.
struct DiskGoal {
  DiskPattern pattern = DiskPattern::kRead;
  std::uint64_t blocks_max = UINT64_MAX;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();

  bool Wants(std::uint64_t block) const {
    return block < blocks_max && std::chrono::steady_clock::now() < deadline;
  }
  bool Writes(std::uint64_t block) const {
    return pattern == DiskPattern::kWrite || (pattern == DiskPattern::kMixed && block % 2 == 1);
  }
};

/// A plain loop of requests, which shares no code with the engines. Threads: externally
/// synchronised.
class DiskLoop {
 public:
  virtual ~DiskLoop() = default;
  /// Returns the number of blocks moved whole. Requests that are short, or fail for a reason that
  /// passes, do not count. Errors: those of other requests, and of base::StartThread.
  virtual absl::StatusOr<std::uint64_t> Run(const DiskTarget& target, const DiskGoal& goal) = 0;
};

/// Makes a loop with a ring of its own. Errors: those of io_uring_setup(2) and io_uring_enter(2).
absl::StatusOr<std::unique_ptr<DiskLoop>> MakeRingLoop(std::uint32_t queue_depth);
/// Makes a loop with a thread for each request in flight, which calls pread and pwrite.
std::unique_ptr<DiskLoop> MakeThreadLoop();

}  // namespace sluice::io
