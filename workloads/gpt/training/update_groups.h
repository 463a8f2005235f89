#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "workloads/gpt/model/parameters.h"

namespace sluice::gpt {

/// Parameters that are updated together.
struct UpdateGroup {
  std::string name;
  std::vector<std::size_t> parameters;  ///< indices into ParameterList::all
};

/// All groups in the order in which a forward needs them. First come the parameters of the
/// embedding, then all vectors (they share pages), then layer by layer the matrices of each op of
/// its forward. A parameter's roundings depend on its place in this order.
std::vector<UpdateGroup> GroupsOf(const ParameterList& parameters);

inline constexpr std::size_t kGroupsBeforeLayers = 2;
inline constexpr std::size_t kGroupsPerLayer = 3;

}  // namespace sluice::gpt
