#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "sluice/schedule.h"
#include "tools/atomic_file.h"

namespace sluice::tools {

/// Appends a schedule as JSON lines: a header, its tensors, its ops. A file may hold several, one
/// per iteration key. Errors: InvalidArgument (an op that uses several tiers), as AtomicFile.
absl::Status AppendSchedule(const std::string& name, const Schedule& schedule, AtomicFile* file);

/// Receives one line with its newline. An error ends the writing and is returned.
using LineSink = std::function<absl::Status(std::string_view line)>;

/// The lines of one schedule, one by one, as all together may be large.
absl::Status WriteSchedule(const std::string& name, const Schedule& schedule, const LineSink& sink);

}  // namespace sluice::tools
