#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace sluice::optim {

/// Depth to which lists and objects may lie in one another. Saves have less. Comparing and printing
/// recurse, and a greater depth might use up a stack.
inline constexpr int kJsonDepthMax = 16;

/// Parses a text. The result is discarded if the text is no JSON, or is nested deeper than
/// kJsonDepthMax.
nlohmann::json ParseShallowJson(std::string_view text);

}  // namespace sluice::optim
