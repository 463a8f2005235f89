#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::numa {

/// The tightest memory limit of the control groups that this process is in.
struct CgroupMemory {
  std::string path;  ///< directory of the group that sets the limit
  std::string file;  ///< name of the file there that holds the limit: "memory.max"
  std::uint64_t limit_bytes = 0;
  /// Bytes in use, without page cache that can be given back at once.
  std::uint64_t used_bytes = 0;
  std::uint64_t available_bytes() const {
    return used_bytes < limit_bytes ? limit_bytes - used_bytes : 0;
  }
};

/// Reads the groups of this process and all above them, of version 1 and 2, from proc and the
/// mounts named there, below `root`. The limit that leaves least is the answer; none: no group
/// limits memory. memory.high counts as memory.max does. Above memory.high the kernel takes pages
/// back, but frames are never given back, so the process would stand still. Source: cgroups(7),
/// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of the kernel.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root);

}  // namespace sluice::numa
