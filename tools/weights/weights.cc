#include "tools/weights/weights.h"

#include <array>

#include "tools/support/sub_command.h"

namespace sluice::tools {

int RunWeights(std::span<const std::string> words) {
  constexpr std::array kCommands = {
      SubCommand{"ls", "what a checkpoint holds, and what a pass over it costs", RunWeightsLs},
      SubCommand{"sum", "writes checksums of a checkpoint", RunWeightsSum},
      SubCommand{"check", "whether a checkpoint is whole and as it was", RunWeightsCheck},
  };
  return RunSubCommand("sluice weights", kCommands, words);
}

}  // namespace sluice::tools
