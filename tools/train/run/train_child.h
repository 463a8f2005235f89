#pragma once

namespace sluice::tools {

/// The word that makes this program the run in RAM of --verify (see RamRun). Users have no need of
/// it.
inline constexpr const char* kRamChildWord = "--ram-child";

/// Trains on behalf of the process at the other end of standard input, which sends configuration
/// and text. Serves until that process closes the channel.
int RunTrainChild();

}  // namespace sluice::tools
