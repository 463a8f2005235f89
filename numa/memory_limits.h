#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "numa/cgroup_memory.h"

namespace sluice::numa {

/// Name of RLIMIT_AS in messages.
inline constexpr char kAddressLimit[] = "RLIMIT_AS (ulimit -v)";

struct MemoryLimits {
  std::uint64_t total_bytes = 0;             ///< MemTotal
  std::uint64_t system_available_bytes = 0;  ///< MemAvailable
  std::optional<CgroupMemory> cgroup;        ///< none: no group limits memory
  /// Bytes that RLIMIT_AS leaves of addresses, and RLIMIT_DATA of the process's own memory, which
  /// frames are not; none: unlimited.
  std::optional<std::uint64_t> address_bytes;
  std::optional<std::uint64_t> data_bytes;
  /// The least of MemAvailable, the rest that the group leaves and `address_bytes`.
  std::uint64_t available_bytes = 0;
  /// Source of `available_bytes`, as messages name it: the path of a cgroup's file.
  std::string available_source;
  /// Bytes that a measurement may take for its buffers, before there are frames: an eighth.
  std::uint64_t measuring_bytes() const { return available_bytes / 8; }
  /// Less than a quarter of the machine's memory, or of the group's limit, is available.
  bool is_short() const;

  /// RLIMIT_MEMLOCK, soft; none: unlimited. `memlock_exempt`: the process has CAP_IPC_LOCK, and the
  /// limit does not hold.
  std::optional<std::uint64_t> memlock_bytes;
  bool memlock_exempt = false;
  /// Number of mappings that a process may have, vm.max_map_count.
  std::uint64_t max_map_count = 0;
};

/// Sets `available_bytes` and `available_source` by the other fields.
void ChooseTightest(MemoryLimits* limits);

/// Reads proc and the control groups below `root`, which tests replace.
/// Errors: NotFound when `root`/proc/meminfo cannot be read.
absl::StatusOr<MemoryLimits> ReadMemoryLimits(const std::string& root = "/");

}  // namespace sluice::numa
