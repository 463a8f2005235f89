#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace sluice::tools {

/// Exit codes of every sub-command.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDiffers = 1;        ///< a verification found a difference
inline constexpr int kExitUserError = 2;      ///< flags, configuration, files, budgets
inline constexpr int kExitDeviceFailure = 3;  ///< I/O or a device failed
/// Base of exit codes after a signal, whose number is added: 130 is Ctrl-C.
inline constexpr int kExitSignal = 128;

/// Exit code of an error. Causes that the user can change (arguments, budgets, permissions, missing
/// files) are user errors, all others failures.
int ExitCodeOf(const absl::Status& status);

/// Prints "sluice: <message>" to standard error, which may be closed or full.
void PrintError(std::string_view message);

/// Prints the status's message with PrintError. Returns the exit code.
int Fail(const absl::Status& status);

}  // namespace sluice::tools
