#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/state/save_interval.h"
#include "tools/train/state/state_directory.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

struct StateSaverOptions {
  SaveInterval every;
  /// The directory of --state; null: none. Lifetime: outlives the saver.
  StateDirectory* directory = nullptr;
  /// Directory of --save-state, which has one file that each save replaces; empty: none.
  std::string in_place;
  /// Directory of the save that the run goes on from, if saves go elsewhere; empty: the save is
  /// among the others, or there is none.
  std::string resumed_from = {};
  /// Writes the trainer's state, whole and durable, to a directory.
  std::function<absl::Status(const std::string& directory)> save;
  /// Begins to write the state beside the steps that follow (gpt::Trainer::StartSave). Null: saves
  /// on the way are made at once, and the next two are not called.
  std::function<absl::Status(const std::string& directory)> start = nullptr;
  /// Blocks until all saves that were begun are over.
  std::function<void()> finish = nullptr;
  /// Gives up the save after a step, unless it has all its parts (gpt::Trainer::GiveUpSave).
  std::function<void(int step)> give_up = nullptr;
  /// The saves that are over since the last call (gpt::Trainer::TakeFinishedSaves).
  std::function<std::vector<gpt::FinishedSave>()> take = nullptr;
  /// Clock of the saver; tests replace it.
  std::function<SaveClock::Time()> now = std::chrono::steady_clock::now;
};

/// Saves a run on its way and at its end. Threads: externally synchronised.
class StateSaver {
 public:
  /// `step`: after which the run goes on; 0: it begins.
  StateSaver(StateSaverOptions options, int step);

  /// Begins a save after `step` if one is due, and ends those that are whole. Errors: the first of
  /// a save that ended, or of the one that is due: those of SaveNow; the older saves stand.
  absl::Status SaveIfDue(int step);
  /// Ends the saves that were begun, and saves after `step`, unless there is that save by then, or
  /// no step was made. Errors: those of `save` and of the directory, with the flag and which save
  /// stands.
  absl::Status SaveNow(int step);
  /// Waits for the saves that were begun, and ends them. Errors: the first one's.
  absl::Status FinishBegun();
  /// Whether steps up to `step` were made that no whole save holds.
  bool HasUnsaved(int step) const { return step > saved_step_; }
  /// The step of the last good save, or after which the run goes on.
  int saved_step() const { return saved_step_; }
  /// Answers a loss of `step` that is no finite number. A save of the step before led to it, if
  /// this run made or began one. That save is given up or removed, so that a run goes on from the
  /// one before. In place, a whole save stays, as there is none before. Returns the action as a
  /// sentence; empty: none.
  absl::StatusOr<std::string> OnLossNotFinite(int step);
  /// Answers parameters after `step` that are no finite numbers, likewise with the save of that
  /// step.
  absl::StatusOr<std::string> OnParametersNotFinite(int step);

 private:
  bool saves() const { return options_.directory != nullptr || !options_.in_place.empty(); }
  /// Begins the save of `step`.
  absl::Status Start(int step);
  /// Ends the saves that are over. Errors: the first one's.
  absl::Status Collect();
  absl::Status End(const gpt::FinishedSave& save);
  /// The directory that takes the save of `step`.
  absl::StatusOr<std::string> PlaceOf(int step);
  absl::StatusOr<std::string> Withdraw(int step, std::string_view why);
  /// Sentence about the save that stands if the next one fails: "that of step 5 stands".
  std::string Standing() const;
  absl::Status Failed(const absl::Status& why, int step) const;

  const StateSaverOptions options_;
  SaveClock clock_;
  const int steps_before_;
  int begun_step_ = 0;  ///< step of the last save that was begun
  int saved_step_;      ///< step of the last good save, or after which the run goes on
};

}  // namespace sluice::tools
