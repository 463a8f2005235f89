#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::tools {

/// Interval between saves of a run on its way: a number of steps, or a time since the last save.
struct SaveInterval {
  int steps = 0;  ///< steps between saves; 0: the time decides
  std::chrono::seconds time{0};

  bool none() const { return steps == 0 && time.count() == 0; }
};

/// Parses an interval: "10 steps", "90 s", "5 min" or "2 h", a whole number from 1 on, a space, a
/// unit. "" is none. Errors: InvalidArgument that names the fault and the allowed forms.
absl::StatusOr<SaveInterval> ParseSaveInterval(std::string_view text);

/// Clock that tells when the next save is due. Threads: externally synchronised.
class SaveClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  SaveClock(const SaveInterval& interval, Time start) : interval_(interval), last_(start) {}

  /// Whether a save is due after `step`. Steps count from the training's first one, so a run that
  /// goes on saves after the same steps.
  bool Due(int step, Time now) const;
  /// Notes that a save has ended, well or not: the time counts from here.
  void OnSave(Time now) { last_ = now; }

 private:
  const SaveInterval interval_;
  Time last_;
};

}  // namespace sluice::tools
