#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "sluice/schedule.h"

namespace sluice::sim {

/// Receives one line with its newline. An error ends the writing and is returned.
using LineSink = std::function<absl::Status(std::string_view line)>;

/// Writes a schedule that a Runtime recorded as JSON lines, one by one, as all together may be
/// large: a header, its tensors, its ops. A tensor that is discarded as a whole after its last use
/// lives within the iteration; any other exists from one to the next. A file may hold several
/// schedules, one per iteration key. Errors: those of the sink.
absl::Status WriteRecorded(const std::string& name, const Schedule& recorded, const LineSink& sink);

}  // namespace sluice::sim
