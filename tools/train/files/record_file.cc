#include "tools/train/files/record_file.h"

#include <string_view>

#include "runtime/sim/files/schedule_writer.h"

namespace sluice::tools {

absl::Status AppendSchedule(const std::string& name, const Schedule& schedule, AtomicFile* file) {
  return sim::WriteRecorded(
      name, schedule, [file](std::string_view line) { return file->Append(line); });
}

}  // namespace sluice::tools
