#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice::numa {

/// The tightest memory limit of the control groups that this process is in.
struct CgroupMemory {
  std::string path;  ///< of the group that sets it, as seen in the file system
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;  ///< without page cache that can be given back at once
  std::uint64_t available_bytes() const {
    return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
  }
};

struct MemoryLimits {
  std::uint64_t total_bytes = 0;             ///< MemTotal
  std::uint64_t system_available_bytes = 0;  ///< MemAvailable
  std::optional<CgroupMemory> cgroup;        ///< none: no group limits memory
  /// min(MemAvailable, what the group leaves): what budgets may use.
  std::uint64_t available_bytes = 0;

  /// RLIMIT_MEMLOCK, soft; none: unlimited. `memlock_exempt`: CAP_IPC_LOCK, the limit does not
  /// hold.
  std::optional<std::uint64_t> memlock_bytes;
  bool memlock_exempt = false;
  /// vm.max_map_count: the mappings that a process may have.
  std::uint64_t max_map_count = 0;
};

/// Reads proc and sys/fs/cgroup (version 1 and 2) below `root`, which tests replace.
/// Errors: NotFound when `root`/proc/meminfo cannot be read.
absl::StatusOr<MemoryLimits> ReadMemoryLimits(const std::string& root = "/");

}  // namespace sluice::numa
