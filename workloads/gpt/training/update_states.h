#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {

/// Suffixes of a parameter's name in the names of its moments, and of a moment's in that of its
/// scales.
inline constexpr const char* kMomentSuffixes[] = {".m", ".v"};
inline constexpr const char* kScaleSuffix = ".scale";

/// Bytes of one moment of the parameter, and of its scales.
std::uint64_t MomentBytes(const Parameter& parameter, StateType type);
std::uint64_t ScaleBytes(const Parameter& parameter);

/// Creates the moments, and the scales of 8-bit ones, where an OffloadedOptimizer places them. A
/// tensor of half a page or more is alone in its segment; smaller ones of a group share one. So a
/// run that is found to fit fits. Errors: those of Memory.
absl::Status CreateStates(const UpdaterParts& parts);

}  // namespace sluice::gpt
