#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::tools {

/// Reads a schedule file that the user named, or a pipe. Errors: those of ReadFile and
/// sim::ScheduleReader; each names the file.
absl::StatusOr<sim::FileSchedule> LoadSchedule(const std::string& path,
                                               const std::optional<std::string>& key);

}  // namespace sluice::tools
