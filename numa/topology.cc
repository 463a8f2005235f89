#include "numa/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <set>
#include <type_traits>

#include "base/status.h"
#include "numa/topology_calls.h"

namespace sluice::numa {
namespace {

struct TopologyDestroyer {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyDestroyer>;

TopologyHandle NewTopology() {
  hwloc_topology_t topology = nullptr;
  return TopologyHandle(hwloc_topology_init(&topology) == 0 ? topology : nullptr);
}

/// hwloc's x86 back end is left out. It binds the caller to each processor in turn, and waits for
/// ever for one that a real-time process keeps. sysfs has all facts used here. A build of hwloc
/// that lacks the back end refuses to leave it out.
absl::Status Load(hwloc_topology_t topology, const absl::Status& failure) {
  SLUICE_RETURN_IF_ERROR(CheckTopologyCalls());
  static_cast<void>(
      hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86"));
  return hwloc_topology_load(topology) == 0 ? absl::OkStatus() : failure;
}

std::vector<int> ToVector(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

int Count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology, type));
}

std::vector<NodeInfo> ReadNodes(hwloc_topology_t topology) {
  std::vector<NodeInfo> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    nodes.push_back({.index = static_cast<int>(object->os_index),
                     .memory_bytes = object->attr->numanode.local_memory,
                     .near_cpus = ToVector(object->cpuset)});
  }
  return nodes;
}

/// Gives each processor to one node. hwloc names the processors near a node, so several nodes may
/// name the same ones. The node that names the fewest gets the processor, of equal ones the first.
/// A node that gets none is memory alone.
void AssignCpus(std::vector<NodeInfo>& nodes) {
  std::stable_sort(nodes.begin(), nodes.end(), [](const NodeInfo& a, const NodeInfo& b) {
    return a.near_cpus.size() != b.near_cpus.size() ? a.near_cpus.size() < b.near_cpus.size()
                                                    : a.index < b.index;
  });
  std::set<int> taken;
  for (NodeInfo& node : nodes) {
    for (const int cpu : node.near_cpus) {
      if (taken.insert(cpu).second) node.cpus.push_back(cpu);
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const NodeInfo& a, const NodeInfo& b) {
    return a.index < b.index;
  });
}

std::vector<CacheInfo> ReadCaches(hwloc_topology_t topology) {
  std::vector<CacheInfo> caches;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
      caches.push_back({.level = static_cast<int>(object->attr->cache.depth),
                        .bytes = object->attr->cache.size,
                        .line_bytes = object->attr->cache.linesize,
                        .cpus = ToVector(object->cpuset)});
    }
  }
  return caches;
}

Topology Read(hwloc_topology_t topology) {
  Topology result;
  result.nodes = ReadNodes(topology);
  AssignCpus(result.nodes);
  result.caches = ReadCaches(topology);
  result.packages = Count(topology, HWLOC_OBJ_PACKAGE);
  result.cores = Count(topology, HWLOC_OBJ_CORE);
  result.cpus = ToVector(hwloc_get_root_obj(topology)->cpuset);
  return result;
}

}  // namespace

absl::StatusOr<Topology> DiscoverTopology() {
  const absl::Status failure =
      absl::InternalError("hwloc cannot read the topology of this machine");
  const TopologyHandle topology = NewTopology();
  if (topology == nullptr) return failure;
  SLUICE_RETURN_IF_ERROR(Load(topology.get(), failure));
  return Read(topology.get());
}

}  // namespace sluice::numa
