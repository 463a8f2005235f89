#include "numa/binding.h"

#include <numa.h>
#include <numaif.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"

namespace sluice::numa {
namespace {

/// MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES and MPOL_F_NUMA_BALANCING, which a mode may carry;
/// libnuma's header has none of them.
constexpr int kModeFlags = 7 << 13;

}  // namespace

int CountNodes() {
  if (numa_available() < 0) return 1;
  return std::max(1, numa_num_configured_nodes());
}

std::vector<int> PolicyNodes() {
  bitmask* mask = numa_bitmask_alloc(kNodeIndexEnd);
  int mode = MPOL_DEFAULT;
  std::vector<int> nodes;
  const long result = get_mempolicy(&mode, mask->maskp, mask->size + 1, nullptr, 0);
  if (result == 0 && (mode & ~kModeFlags) == MPOL_BIND) {
    for (int node = 0; node < kNodeIndexEnd; ++node) {
      if (numa_bitmask_isbitset(mask, static_cast<unsigned>(node)) != 0) nodes.push_back(node);
    }
  }
  numa_bitmask_free(mask);
  return nodes;
}

BindingResult BindToNode(std::span<std::byte> memory, int node, int node_count) {
  if (node_count <= 1) return {.bound = true};
  bitmask* nodes = numa_bitmask_alloc(kNodeIndexEnd);
  numa_bitmask_setbit(nodes, static_cast<unsigned>(node));
  const long result =
      mbind(memory.data(), memory.size(), MPOL_BIND, nodes->maskp, nodes->size + 1, 0);
  const int error = errno;
  numa_bitmask_free(nodes);
  if (result == 0) return {.bound = true};
  return {.bound = false,
          .reason = absl::StrFormat(
              "mbind to node %d refused: %s", node, base::ToAbsl(base::ErrnoName(error)))};
}

}  // namespace sluice::numa
