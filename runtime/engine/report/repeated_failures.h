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
  /// Counts a failure. True: it is the first of its kind at the place, and to be told.
  bool IsFirst(const std::string& place, const absl::Status& cause);
  /// Returns a line for each kind of failure that was not told every time. Counts start anew.
  std::vector<std::string> Take();

 private:
  struct Kind {
    std::string first;  ///< last part of the first cause
    std::uint64_t count = 0;
  };
  /// Kinds of failures by place and by the last part of the cause. That part is without numbers, so
  /// that pages and checksums make no difference.
  std::map<std::pair<std::string, std::string>, Kind> kinds_;
};

}  // namespace sluice::engine
