#include "tools/lab/lab.h"

#include <array>

#include "tools/support/sub_command.h"

namespace sluice::tools {

int RunLab(std::span<const std::string> words) {
  constexpr std::array kCommands = {
      SubCommand{"run", "a schedule on a simulated machine, under policies", RunLabRun},
      SubCommand{"show", "what a schedule asks of a machine", RunLabShow},
      SubCommand{"validate", "how close the simulator comes to real training", RunLabValidate},
  };
  return RunSubCommand("sluice lab", kCommands, words);
}

}  // namespace sluice::tools
