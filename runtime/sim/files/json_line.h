#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace sluice::sim {

using Json = nlohmann::json;

struct JsonLimits {
  std::uint64_t values = 0;
  int depth = 0;
};

/// Parses one line that must hold one JSON object; memory is bounded by the limits, and its length.
/// Errors: InvalidArgument (no JSON: names the byte within the line; no object; a field twice),
/// ResourceExhausted (a limit).
absl::StatusOr<Json> ParseJsonLine(std::string_view line, JsonLimits limits);

}  // namespace sluice::sim
