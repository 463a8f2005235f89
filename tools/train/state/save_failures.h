#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/engine/report/repeated_failures.h"

namespace sluice::tools {

/// Lines about saves on the way that fail. A disk that stays full refuses each of them: a cause is
/// told once, and its repetitions are counted until a save succeeds. Threads: externally
/// synchronised.
class SaveFailures {
 public:
  /// `step_before`: step of the last good save, or after which the run goes on.
  explicit SaveFailures(int step_before) : saved_step_(step_before) {}

  /// The lines to tell of a StateSaver::SaveIfDue, after which `saved_step` is the last good save.
  std::vector<std::string> Note(const absl::Status& status, int saved_step);
  /// A line for each cause with repetitions. Starts anew.
  std::vector<std::string> Take() { return failures_.Take(); }

 private:
  engine::RepeatedFailures failures_;
  int saved_step_;
};

}  // namespace sluice::tools
