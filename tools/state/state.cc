#include "tools/state/state.h"

#include <array>

#include "tools/support/sub_command.h"

namespace sluice::tools {

int RunState(std::span<const std::string> words) {
  constexpr std::array kCommands = {
      SubCommand{"export", "writes a save as a safetensors file", RunStateExport},
      SubCommand{"import", "writes a safetensors file as a save", RunStateImport},
      SubCommand{"show", "what a save holds", RunStateShow},
  };
  return RunSubCommand("sluice state", kCommands, words);
}

}  // namespace sluice::tools
