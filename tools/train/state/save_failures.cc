#include "tools/train/state/save_failures.h"

#include <utility>

#include "base/strings.h"

namespace sluice::tools {

std::vector<std::string> SaveFailures::Note(const absl::Status& status, int saved_step) {
  std::vector<std::string> lines;
  if (std::exchange(saved_step_, saved_step) != saved_step) lines = Take();
  if (!status.ok() && failures_.IsFirst("saves on the way", status)) {
    lines.emplace_back(base::ToStd(status.message()));
  }
  return lines;
}

}  // namespace sluice::tools
