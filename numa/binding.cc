#include "numa/binding.h"

#include <numa.h>
#include <numaif.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"

namespace sluice::numa {

int CountNodes() {
  if (numa_available() < 0) return 1;
  return std::max(1, numa_num_configured_nodes());
}

BindingResult BindToNode(std::span<std::byte> memory, int node, int node_count) {
  if (node_count <= 1) return {.bound = true};
  bitmask* nodes = numa_bitmask_alloc(1024);
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
