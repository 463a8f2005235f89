#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {

/// The saves that Trainer::StartSave is asked for. At most one waits for its snapshot, at most one
/// is under way, and all others are over. Threads: externally synchronised. Lifetime: the optimizer
/// outlives the object.
class TrainerSaves {
 public:
  /// `clips`: no deferred update begins within its own step.
  TrainerSaves(OffloadedOptimizer& optimizer, bool clips) : optimizer_(optimizer), clips_(clips) {}

  /// Notes that a save is wanted. REQUIRES: !wanted().
  void Want(int step, const std::string& directory, std::string_view note);
  /// Whether Wait or StartWanted has work to do.
  bool unfinished() const { return wanted_ || started_; }
  bool wanted() const { return wanted_.has_value(); }
  /// Makes the snapshot of the wanted save, if there is one. REQUIRES: no update is pending.
  void StartWanted();
  /// Fails the wanted save, which cannot be made.
  void FailWanted(absl::Status status);
  /// Gives up the save of `step`, unless it has all its parts.
  void GiveUp(int step);
  /// Blocks until the started save is over. Errors: those of the save; OK where there is none.
  absl::Status Wait();
  /// Outcome of the last save that is over.
  absl::Status LastStatus() const;
  std::vector<FinishedSave> TakeFinished();
  /// Whether updates of a step that begins now write parts of a save.
  bool AreWrittenBy(UpdateTime update) const;

 private:
  struct Wanted {
    int step = 0;
    std::string directory;
    std::string note;
  };
  struct Started {
    Wanted of;
    SaveHandle handle;
  };

  OffloadedOptimizer& optimizer_;
  const bool clips_;
  std::optional<Wanted> wanted_;
  std::optional<Started> started_;
  std::vector<FinishedSave> finished_;
};

}  // namespace sluice::gpt
