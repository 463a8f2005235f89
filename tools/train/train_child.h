#pragma once

namespace sluice::tools {

/// The words that make this program one of the runs that another one compares with (see ChildRun):
/// entirely in RAM, or under budgets as that one. Not for users.
inline constexpr const char* kRamChildWord = "--ram-child";
inline constexpr const char* kPagedChildWord = "--paged-child";

enum class ChildKind { kRam, kPaged };

/// Trains on behalf of the process at the other end of standard input, which sends configuration
/// and text. Serves until that process closes the channel.
int RunTrainChild(ChildKind kind);

}  // namespace sluice::tools
