#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice weights SUB-COMMAND [FLAG ...]`: checkpoints as they were published. Returns the exit
/// code.
int RunWeights(std::span<const std::string> words);

/// `sluice weights ls`: the contents of a checkpoint, and the cost of reading it.
int RunWeightsLs(std::span<const std::string> words);

/// `sluice weights sum`: writes checksums of a checkpoint's files beside them.
int RunWeightsSum(std::span<const std::string> words);

/// `sluice weights check`: whether a checkpoint is whole, and as it was when its checksums were
/// made.
int RunWeightsCheck(std::span<const std::string> words);

}  // namespace sluice::tools
