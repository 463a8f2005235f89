#pragma once

namespace sluice::tools {

/// The word that makes this program the run in RAM (see RamRun); not for users.
inline constexpr const char* kRamChildWord = "--ram-child";

/// Trains in RAM on behalf of the process at the other end of standard input, which sends
/// configuration and text. Serves until that process closes the channel.
int RunRamChild();

}  // namespace sluice::tools
