#pragma once

#include <string>

#include "absl/status/status.h"
#include "sluice/schedule.h"
#include "tools/atomic_file.h"

namespace sluice::tools {

/// Appends a schedule as JSON lines: a header, its tensors, its ops. A file may hold several, one
/// per iteration key. Errors: InvalidArgument (an op that uses several tiers), as AtomicFile.
absl::Status AppendSchedule(const std::string& name, const Schedule& schedule, AtomicFile* file);

/// The lines of one schedule.
std::string FormatSchedule(const std::string& name, const Schedule& schedule);

}  // namespace sluice::tools
