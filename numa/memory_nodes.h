#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "numa/topology.h"

namespace sluice::numa {

/// A NUMA node on which frames of dram lie.
struct MemoryNode {
  int index = 0;
  /// Nodes that this process may allocate from, this one included: with one there is nothing to
  /// bind, as memory can come from nowhere else.
  int node_count = 1;
  /// What the node can still give at most: free memory, page cache and reclaimable slabs. None: the
  /// system does not tell, or has no other node, so that MemAvailable says it.
  std::optional<std::uint64_t> available_bytes;
  /// Its processors that this process may use; empty: it has none.
  std::vector<int> cpus;
};

/// The nodes for dram, ascending, at least one: those that have memory, that the control group's
/// cpuset and a memory policy (numactl --membind) leave to this process, and that have processors
/// which it may use. A node without such processors is far memory, taken only where there is no
/// other. Reads proc and sys below `root`, which tests replace. Errors: none but what a topology
/// without nodes gives (Internal).
absl::StatusOr<std::vector<MemoryNode>> ListMemoryNodes(const Topology& topology,
                                                        const std::string& root = "/");

/// The NUMA node of the PCI slot `address`, as "0000:3b:00.0"; none: the system does not say. Reads
/// sys below `root`.
std::optional<int> NodeOfPci(const std::string& address, const std::string& root = "/");

/// How many of `frames` each node holds: even shares, the remainder on the first. What a node lacks
/// memory for goes evenly to those that have some left: a budget that the machine has memory for is
/// not refused because another process sits on one node. The caller announces it. Errors:
/// ResourceExhausted that names each node with what its share is and what it has.
absl::StatusOr<std::vector<std::uint32_t>> SplitFrames(std::uint32_t frames,
                                                       std::uint64_t page_bytes,
                                                       const std::vector<MemoryNode>& nodes);

/// How many of `frames` each node holds where one is filled after the other. Errors: as
/// SplitFrames.
absl::StatusOr<std::vector<std::uint32_t>> FillNodes(std::uint32_t frames,
                                                     std::uint64_t page_bytes,
                                                     const std::vector<MemoryNode>& nodes);

/// "12 MiB" from 10 MiB on, else "40 KiB"; rounded down.
std::string SizeText(std::uint64_t bytes);

/// Which nodes have less memory than an even share of `frames` takes: "node 1 has 3 MiB available,
/// an even share is 4 MiB". Empty: none.
std::string DescribeLack(std::uint32_t frames,
                         std::uint64_t page_bytes,
                         const std::vector<MemoryNode>& nodes);

}  // namespace sluice::numa
