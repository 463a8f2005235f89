#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace sluice::tools {

/// What every sub-command answers to its caller.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDiffers = 1;        ///< a verification found a difference
inline constexpr int kExitUserError = 2;      ///< flags, configuration, files, budgets
inline constexpr int kExitDeviceFailure = 3;  ///< I/O or a device failed
inline constexpr int kExitSignal = 128;       ///< plus the signal that interrupted: 130 is Ctrl-C

/// Which of them an error is: what the user can change (arguments, budgets, permissions, missing
/// files) is a user error, everything else a failure.
int ExitCodeOf(const absl::Status& status);

/// Prints "sluice: <message>" to standard error, which may be closed or full.
void PrintError(std::string_view message);

/// Prints the status's message so to standard error; the exit code.
int Fail(const absl::Status& status);

}  // namespace sluice::tools
