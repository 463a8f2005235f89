#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// Writes schedules as JSON lines: per schedule a header, its tensors, its ops (docs/ describes the
/// format). Errors: as AtomicFile; nothing is left behind then.
absl::Status WriteScheduleFile(const std::string& path,
                               const std::string& name,
                               std::span<const Schedule> schedules);

/// The lines of one schedule.
std::string FormatSchedule(const std::string& name, const Schedule& schedule);

}  // namespace sluice::tools
