#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sim/files/read_limits.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "runtime/sim/schedule/schedule_builder.h"

namespace sluice::sim {

/// Takes the lines of a schedule file, checks all of its schedules and keeps the one wanted.
/// Threads: externally synchronised.
class ScheduleCollector {
 public:
  ScheduleCollector(std::string file, std::optional<std::string> key, ReadLimits limits);

  /// Takes a line. Errors: InvalidArgument, ResourceExhausted; each begins with file and line.
  absl::Status AddLine(std::string_view line, std::uint64_t number);
  /// Ends the file. `last`: number of the last line. Errors: those of AddLine, NotFound.
  absl::StatusOr<FileSchedule> Finish(std::uint64_t last);

 private:
  absl::Status At(std::uint64_t line, const absl::Status& status) const;
  absl::Status AddParsed(const Json& line, std::uint64_t number);
  absl::Status EndSchedule(std::uint64_t last);
  absl::Status NoteKey(const ScheduleBuilder& builder);
  absl::Status NoSuchKey() const;

  const std::string file_;
  const std::optional<std::string> key_;
  const ReadLimits limits_;
  std::uint64_t model_bytes_left_;
  std::optional<ScheduleBuilder> builder_;
  std::optional<FileSchedule> best_;
  /// Lines of the headers, by key.
  std::map<std::string, std::uint64_t> keys_;
};

}  // namespace sluice::sim
