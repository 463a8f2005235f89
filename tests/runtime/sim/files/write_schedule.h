#pragma once

#include <string>

#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// The schedule as lines of a file. A ScheduleReader reads the same schedule from them.
std::string WriteSchedule(const FileSchedule& schedule);

}  // namespace sluice::sim
