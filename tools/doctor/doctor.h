#pragma once

#include <ostream>
#include <span>
#include <string>

namespace sluice::tools {

/// Streams that a sub-command writes to.
struct DoctorStreams {
  std::ostream& out;
  std::ostream& err;
};

/// `sluice doctor`: what this machine offers, what sluice will use, and the reasons. Leaves nothing
/// behind. Returns the exit code:
/// - 0
/// - 2 for an unknown flag
/// - that of `sluice train` if the spill directory cannot be used
/// - that of the error if a measurement fails.
int RunDoctor(std::span<const std::string> args, DoctorStreams streams);
int RunDoctor(std::span<const std::string> args);

}  // namespace sluice::tools
