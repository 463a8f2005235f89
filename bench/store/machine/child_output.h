#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// Asked often while something lasts; true: come to an end.
using InterruptedFn = std::function<bool()>;

/// What the first inherited descriptor becomes.
inline constexpr int kFirstInheritedFd = 3;

struct ChildOptions {
  std::span<const std::string> words;  ///< the program, looked up in PATH, and its arguments
  std::vector<int> inherited_fds;      ///< become descriptors 3, 4 ... of the child
  InterruptedFn interrupted;           ///< empty: never
  double seconds_max = 60;             ///< longer: it hangs
  std::size_t text_max = std::size_t{4} << 20;  ///< more bytes: it is not what was meant
};

struct ChildOutput {
  int exit_code = 0;  ///< or 128 + the signal that ended it
  std::string text;   ///< standard output and standard error
};

/// Runs a program to its end, in a process group of its own, which is terminated when interrupted
/// or at its limits, and killed if it has not ended after 3 seconds. Errors: NotFound (no such
/// program), Cancelled (interrupted), DeadlineExceeded (seconds_max), Internal (text_max), others
/// of posix_spawn(3).
absl::StatusOr<ChildOutput> RunChild(const ChildOptions& options);

}  // namespace sluice::bench
