#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"

namespace sluice::tools {

/// A path, and what to call it: its flag, or the key that it comes from.
struct NamedPath {
  std::string name;
  std::string path;
};

/// Every output needs a file, and one of its own: it is no other output, no input, and not where
/// standard output goes. Errors: InvalidArgument that names both; those of ResolveOutput.
absl::Status CheckOutputs(std::span<const NamedPath> outputs, std::span<const NamedPath> inputs);

}  // namespace sluice::tools
