#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/optim/step/step_state.h"

namespace sluice::optim {

/// The step of an optimizer that is under way, and the number of those done. Threads: any for
/// done, failed and OnOver; the other methods are externally synchronised.
class CurrentStep {
 public:
  /// A look at the step after it may have ended.
  struct Outcome {
    std::int64_t done = 0;  ///< number of the steps done
    bool over = false;      ///< the step is over, and no Outcome has said so before
    bool skipped = false;   ///< the step that is over was skipped
  };

  std::int64_t done() const;
  /// Whether the last step failed in part, and is to be repeated.
  bool failed() const;
  /// Whether Step was called for the step, or for its last try.
  bool was_released() const;
  /// State of the step, from its first gradient until an Outcome says that it is over; else null.
  const std::shared_ptr<internal::StepState>& state() const { return state_; }

  /// Makes the state of a step, or of its repetition.
  void Begin(std::size_t groups);
  /// Notes the call of Step. Returns whether the step repeats one that failed. Errors:
  /// FailedPrecondition (the last call's step is not over, or no Outcome has said so).
  absl::StatusOr<bool> Release();
  /// Notes that the step is over, or has failed. The step counts if it is neither failed nor
  /// skipped.
  void OnOver(bool failed, bool skipped);
  /// Says once that the step is over, and drops its state then.
  Outcome TakeOutcome();
  /// Fails a step that is under way, wherever its thread was. A step that is over stays what it is.
  void Cancel();

  /// Drops the step, as a Load is about to overwrite everything. No failed step is repeated after
  /// it.
  void BeginLoad();
  void EndLoad(std::int64_t done);

  /// Errors: FailedPrecondition after a Load that ended in the middle.
  absl::Status CheckLoaded() const;
  /// Errors: FailedPrecondition while a step is under way, or failed and is to be repeated, and
  /// those of CheckLoaded.
  absl::Status CheckIdle() const;
  /// Whether a Load may replace what there is: also a failed step, and half a Load. Errors: those
  /// of CheckIdle.
  absl::Status CheckReplaceable() const;

 private:
  enum class Phase {
    kGathering,  ///< between steps, or before the call of Step
    kReleased,   ///< Step was called, and the step is not over
    kFailed,     ///< the step is to be repeated
    kOver,       ///< the step is over, and no Outcome has said so
  };

  bool half_loaded_ = false;  ///< a Load has begun to write, and not ended
  std::shared_ptr<internal::StepState> state_;

  mutable base::Mutex mutex_;
  std::int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kGathering;
  bool skipped_ ABSL_GUARDED_BY(mutex_) = false;  ///< the last step that is over was skipped
};

}  // namespace sluice::optim
