#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sim/files/read_limits.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// Reads a schedule file that comes in pieces: JSON lines, or those compressed with gzip. It may
/// hold several schedules, one per iteration key; all are checked and one is kept. Threads:
/// externally synchronised.
class ScheduleReader {
 public:
  struct Options {
    /// Name of the file, for messages.
    std::string file;
    /// The iteration key wanted; none: of the schedule with the most ops, the first of several.
    std::optional<std::string> key;
    ReadLimits limits;
  };
  explicit ScheduleReader(Options options);
  ~ScheduleReader();
  ScheduleReader(const ScheduleReader&) = delete;
  ScheduleReader& operator=(const ScheduleReader&) = delete;

  /// The next bytes of the file. Errors: InvalidArgument, ResourceExhausted (a limit); each names
  /// the file, the line or the byte, and the fix. The first error stays.
  absl::Status Append(std::string_view bytes);
  /// Ends the file; called once. Errors: those of Append; InvalidArgument (an empty file), NotFound
  /// (no such key: names those there are).
  absl::StatusOr<FileSchedule> Finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::sim
