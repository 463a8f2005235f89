#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {

/// What follows a parameter's name in those of its moments, and a moment's in that of its scales.
inline constexpr const char* kMomentSuffixes[] = {".m", ".v"};
inline constexpr const char* kScaleSuffix = ".scale";

/// Of one moment of the parameter, and of its scales.
std::uint64_t MomentBytes(const Parameter& parameter, StateType type);
std::uint64_t ScaleBytes(const Parameter& parameter);

/// Creates the moments, and the scales of 8-bit ones, where an OffloadedOptimizer places them: what
/// has half a page alone in its segment, all that is smaller of a group in one. So what is found to
/// fit fits. Errors: those of Memory.
absl::Status CreateStates(const UpdaterParts& parts);

}  // namespace sluice::gpt
