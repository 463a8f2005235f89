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
  /// Number of nodes that this process may allocate from, this one included. With one there is
  /// nothing to bind, as memory can come from nowhere else.
  int node_count = 1;
  /// Most bytes that the node can still give: free memory, page cache and reclaimable slabs. None:
  /// the system does not tell, or has no other node, so that MemAvailable counts.
  std::optional<std::uint64_t> available_bytes;
  /// Processors of the node that this process may use; empty: it has none.
  std::vector<int> cpus;
};

/// The nodes for dram, ascending, at least one. They have memory, and processors that this process
/// may use. The control group's cpuset and a memory policy (numactl --membind) leave them to the
/// process. A node without such processors is far memory, taken only where there is no other. Reads
/// proc and sys below `root`, which tests replace. Errors: Internal (a topology without nodes).
absl::StatusOr<std::vector<MemoryNode>> ListMemoryNodes(const Topology& topology,
                                                        const std::string& root = "/");

/// The NUMA node of the PCI slot `address`, as "0000:3b:00.0"; none: the system does not say. Reads
/// sys below `root`.
std::optional<int> NodeOfPci(const std::string& address, const std::string& root = "/");

/// Number of `frames` that each node holds: even shares, the remainder on the first. Frames that a
/// node lacks memory for go evenly to nodes that have some left. So a budget that the machine has
/// memory for is not refused because another process sits on one node. The caller announces uneven
/// shares. Errors: ResourceExhausted that names each node with its share and its memory.
absl::StatusOr<std::vector<std::uint32_t>> SplitFrames(std::uint32_t frames,
                                                       std::uint64_t page_bytes,
                                                       const std::vector<MemoryNode>& nodes);

/// Number of `frames` that each node holds where one is filled after the other. Errors: those of
/// SplitFrames.
absl::StatusOr<std::vector<std::uint32_t>> FillNodes(std::uint32_t frames,
                                                     std::uint64_t page_bytes,
                                                     const std::vector<MemoryNode>& nodes);

/// Size as text: "12 MiB" from 10 MiB on, else "40 KiB"; rounded down.
std::string SizeText(std::uint64_t bytes);

/// Text that names the nodes with less memory than an even share of `frames` takes: "node 1 has 3
/// MiB available, an even share is 4 MiB". Empty: there are none.
std::string DescribeLack(std::uint32_t frames,
                         std::uint64_t page_bytes,
                         const std::vector<MemoryNode>& nodes);

}  // namespace sluice::numa
