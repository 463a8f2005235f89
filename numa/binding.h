#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::numa {

struct BindingResult {
  bool bound = false;
  std::string reason;  ///< reason for which the memory is not bound; empty when it is
};

/// Number of NUMA nodes that the kernel has configured; at least 1.
int CountNodes();
/// End of the indices of nodes that can be named.
inline constexpr int kNodeIndexEnd = 1024;

/// The nodes to which the calling thread's memory policy binds it (numactl --membind), ascending.
/// Empty when it binds to none, or the system does not tell.
std::vector<int> PolicyNodes();

/// Binds the pages of `memory` to `node`, before they are touched. With one node there is nothing
/// to bind and the answer is "bound". A refusal (seccomp in containers, a node that is not there)
/// is an outcome, not an error: memory then comes from wherever the kernel takes it.
BindingResult BindToNode(std::span<std::byte> memory, int node, int node_count);

}  // namespace sluice::numa
