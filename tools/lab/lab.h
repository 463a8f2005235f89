#pragma once

#include <span>
#include <string>

namespace sluice::tools {

/// `sluice lab SUB-COMMAND [FLAG ...]`: works on schedules. Returns the exit code.
int RunLab(std::span<const std::string> words);

/// `sluice lab show`: the demands of a schedule on a machine.
int RunLabShow(std::span<const std::string> words);

/// `sluice lab run`: a schedule on a simulated machine.
int RunLabRun(std::span<const std::string> words);

/// `sluice lab validate`: the simulator against `sluice train`.
int RunLabValidate(std::span<const std::string> words);

}  // namespace sluice::tools
