#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::numa {

struct NodeInfo {
  int index = 0;  ///< the system's number, as ArenaOptions::node takes it
  std::uint64_t memory_bytes = 0;
  /// Processors of the node; empty for a CPU-less one (CXL or persistent memory).
  std::vector<int> cpus;
  /// Nearest processors: `cpus` if the node has any.
  std::vector<int> near_cpus;
  bool cpu_less() const { return cpus.empty(); }
};

struct CacheInfo {
  int level = 0;
  std::uint64_t bytes = 0;
  std::uint32_t line_bytes = 0;
  std::vector<int> cpus;  ///< processors that share the cache
};

/// Processors and memory that this process may use, as hwloc sees them.
struct Topology {
  std::vector<NodeInfo> nodes;    ///< ascending index, at least one
  std::vector<CacheInfo> caches;  ///< data and unified caches
  int packages = 0;
  int cores = 0;
  std::vector<int> cpus;  ///< hardware threads, ascending
};

/// Asks hwloc for the topology, without binding the calling thread to a processor. Errors:
/// FailedPrecondition (the system refuses a call that hwloc would repeat for ever: names call,
/// errno and fix), Internal (hwloc cannot read the machine).
absl::StatusOr<Topology> DiscoverTopology();

}  // namespace sluice::numa
