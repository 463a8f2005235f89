#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "io/safetensors/safetensors_header.h"
#include "tools/state/state_tensors.h"

/// Metadata of a safetensors file of a state, under `__metadata__`. docs/state.md has the keys.

namespace sluice::tools {

std::map<std::string, std::string> MetadataOf(const StateDescription& state);

/// The description of a file that may come from another tool. The parameters' tensors give types
/// and numbers of elements. Errors: InvalidArgument that names the key and the fix.
absl::StatusOr<StateDescription> DescribeFile(const io::SafetensorsHeader& header);

}  // namespace sluice::tools
