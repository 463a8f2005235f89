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
  struct Kind {
    std::string first;  ///< last part of the first cause
    std::uint64_t count = 0;
  };
  /// By place and by the last part of the cause without numbers, so of any page and checksum.
  std::map<std::pair<std::string, std::string>, Kind> kinds_;
};

}  // namespace sluice::engine
