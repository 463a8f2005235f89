#pragma once

#include <string_view>

#include "nlohmann/json.hpp"

namespace sluice::optim {

/// Lists and objects that may lie in one another: more than a save has, and less than what
/// comparing and printing them, which recurse, would use up a stack with.
inline constexpr int kJsonDepthMax = 16;

/// Discarded where the text is no JSON, or is nested deeper.
nlohmann::json ParseShallowJson(std::string_view text);

}  // namespace sluice::optim
