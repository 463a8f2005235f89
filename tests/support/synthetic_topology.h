#pragma once

#include <cstdlib>

#include "absl/status/statusor.h"
#include "numa/topology.h"

namespace sluice::testing {

/// The topology of a machine that hwloc describes: "numa:2 core:4 pu:1". A node whose processors
/// all belong to nodes nearer to them has none: "[numa] numa:2 core:4 pu:1" has one such node.
/// Threads: no other one reads the environment.
inline absl::StatusOr<numa::Topology> SyntheticTopology(const char* description) {
  setenv("HWLOC_SYNTHETIC", description, /*replace=*/1);
  absl::StatusOr<numa::Topology> topology = numa::DiscoverTopology();
  unsetenv("HWLOC_SYNTHETIC");
  return topology;
}

}  // namespace sluice::testing
