#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// The word that makes this program the run in RAM (see RamRun); not for users.
inline constexpr const char* kRamChildWord = "--ram-child";

/// Trains in RAM on behalf of the process at the other end of standard input, which sends the words
/// of the train command's configuration as `words`. Serves until that process closes the channel.
int RunRamChild(std::span<const std::string> words);

}  // namespace sluice::tools
