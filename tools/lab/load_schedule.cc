#include "tools/lab/load_schedule.h"

#include <string_view>

#include "base/status.h"
#include "runtime/sim/files/schedule_reader.h"
#include "tools/support/read_file.h"

namespace sluice::tools {

absl::StatusOr<sim::FileSchedule> LoadSchedule(const std::string& path,
                                               const std::optional<std::string>& key) {
  sim::ScheduleReader::Options options{.file = path, .key = key};
  const Bytes bytes_max = options.limits.text;
  sim::ScheduleReader reader(std::move(options));
  SLUICE_RETURN_IF_ERROR(ReadFile(
      path, bytes_max, [&reader](std::string_view piece) { return reader.Append(piece); }));
  return reader.Finish();
}

}  // namespace sluice::tools
