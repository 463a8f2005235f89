#pragma once

#include <string>

#include "absl/status/status.h"
#include "sluice/schedule.h"
#include "tools/support/output/atomic_file.h"

namespace sluice::tools {

/// Appends a schedule as sim::WriteRecorded writes it. A file may hold several, one per iteration
/// key. Errors: those of AtomicFile.
absl::Status AppendSchedule(const std::string& name, const Schedule& schedule, AtomicFile* file);

}  // namespace sluice::tools
