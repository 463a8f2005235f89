#pragma once

#include <random>

#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// A few tensors, some in segments and some overlapping, and ops that touch parts of them.
FileSchedule RandomSchedule(std::mt19937& random);

}  // namespace sluice::sim
