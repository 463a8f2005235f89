#pragma once

#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// Answers whether to come to an end. Called often while a child runs or a measurement lasts.
using InterruptedFn = std::function<bool()>;

struct ChildOptions {
  std::span<const std::string> words;  ///< the program, looked up in PATH, and its arguments
  InterruptedFn interrupted;           ///< empty: never
  double seconds_max = 60;             ///< time limit, after which the program counts as hung
};

struct ChildOutput {
  int exit_code = 0;  ///< exit code, or 128 + the signal that ended the child
  std::string text;   ///< standard output and standard error
};

/// Runs a program to its end, in a process group of its own. An interrupt or the time limit
/// terminates the group; 3 seconds later it is killed. Errors: NotFound (no such program),
/// Cancelled (interrupted), DeadlineExceeded (seconds_max), others of posix_spawn(3).
absl::StatusOr<ChildOutput> RunChild(const ChildOptions& options);

}  // namespace sluice::bench
