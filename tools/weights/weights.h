#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice weights NAME [FLAG ...]`: checkpoints as they were published; the exit code.
int RunWeights(std::span<const std::string> words);

/// `sluice weights ls`: what a checkpoint holds, and what reading it takes.
int RunWeightsLs(std::span<const std::string> words);

/// `sluice weights sum`: writes checksums of its files beside them.
int RunWeightsSum(std::span<const std::string> words);

/// `sluice weights check`: whether it is whole, and as it was when its checksums were made.
int RunWeightsCheck(std::span<const std::string> words);

}  // namespace sluice::tools
