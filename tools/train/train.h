#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice train`: trains the byte-level GPT on any text under given budgets. Returns the exit
/// code.
int RunTrain(std::span<const std::string> words);

}  // namespace sluice::tools
