#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice::engine {

/// Counts failures by place and cause, so that the log tells each of them once: a disk that is full
/// refuses every page. Threads: externally synchronised.
class RepeatedFailures {
 public:
  /// Whether it is the first of its kind at the place: only that is told.
  bool IsFirst(const std::string& place, const absl::Status& cause);
  /// A line for each kind of which some were not told. Starts anew.
  std::vector<std::string> Take();

 private:
  /// By place and by the last part of the cause, which says neither page nor offset.
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts_;
};

}  // namespace sluice::engine
