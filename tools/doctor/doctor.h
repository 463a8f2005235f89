#pragma once

#include <ostream>
#include <span>
#include <string>

namespace sluice::tools {

/// Where a sub-command writes.
struct DoctorStreams {
  std::ostream& out;
  std::ostream& err;
};

/// `sluice doctor`: what this machine offers and what sluice will use, and why not. Leaves nothing
/// behind. Answers the exit code: 0, 2 for a flag that it does not know, that of `sluice train`
/// where the spill directory cannot be used, and the code of what went wrong when a measurement
/// fails.
int RunDoctor(std::span<const std::string> args, DoctorStreams streams);
int RunDoctor(std::span<const std::string> args);

}  // namespace sluice::tools
