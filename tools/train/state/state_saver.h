#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/state/save_interval.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {

struct StateSaverOptions {
  SaveInterval every;
  /// The directory of --state; null: none. Lifetime: outlives the saver.
  StateDirectory* directory = nullptr;
  /// The directory of --save-state, whose one file is replaced; empty: none.
  std::string in_place;
  /// Writes the trainer's state, whole and durable, to a directory.
  std::function<absl::Status(const std::string& directory)> save;
  /// For tests: in place of the clock.
  std::function<SaveClock::Time()> now = std::chrono::steady_clock::now;
};

/// Saves a run on its way and at its end. Threads: externally synchronised.
class StateSaver {
 public:
  /// `step`: after which the run goes on; 0: it begins.
  StateSaver(StateSaverOptions options, int step);

  /// Whether a save follows this step for sure.
  bool SavesAfter(int step) const { return saves() && clock_.DueByCount(step); }
  /// Saves after `step` if a save is due. Errors: those of SaveNow; the older saves stand.
  absl::Status SaveIfDue(int step);
  /// Saves after `step`, unless there is that save already, or no step was made. Errors: those of
  /// `save` and of the directory, with the flag and which save stands.
  absl::Status SaveNow(int step);
  /// The loss of `step` is no finite number. A save of the step before, if this run has made it,
  /// led to that: it is removed, so that a run goes on from the one before. Of --state only: in
  /// place there is none before. What was done, as a sentence; empty: nothing.
  absl::StatusOr<std::string> OnLossNotFinite(int step);

 private:
  bool saves() const { return options_.directory != nullptr || !options_.in_place.empty(); }
  absl::Status Save(int step);
  absl::Status SaveIn(StateDirectory& directory, int step);
  absl::Status Failed(const absl::Status& why, int step) const;

  const StateSaverOptions options_;
  SaveClock clock_;
  const int steps_before_;
  int saved_step_;  ///< step of the last good save, or after which the run goes on
};

}  // namespace sluice::tools
