#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"

namespace sluice::tools {

/// A path and its name in messages: its flag, or the key that it comes from.
struct NamedPath {
  std::string name;
  std::string path;
};

/// Whether every output has a file of its own: no other output, no input, and not the target of
/// standard output. Errors: InvalidArgument that names both; those of ResolveOutput.
absl::Status CheckOutputs(std::span<const NamedPath> outputs, std::span<const NamedPath> inputs);

}  // namespace sluice::tools
