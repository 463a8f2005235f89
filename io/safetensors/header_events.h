#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

/// The JSON of a safetensors header, before its numbers are checked against each other.

namespace sluice::io {

/// A tensor as the JSON has it; a field that it lacks is none.
struct HeaderTensor {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

struct HeaderContent {
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Quoted, and cut where it is long: a hostile name fills no screen.
std::string ShownName(std::string_view name);

/// Reads event by event, so that nothing is kept that a header has no place for. Errors:
/// InvalidArgument (no JSON, another structure, a name or a field given twice).
absl::StatusOr<HeaderContent> ReadHeaderContent(std::string_view json);

}  // namespace sluice::io
