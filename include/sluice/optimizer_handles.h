#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/op.h"
#include "sluice/optimizer_options.h"

/// Steps and saves of an OffloadedOptimizer (sluice/optimizer.h) that are under way:
///
///   auto optimizer = sluice::OffloadedOptimizer::Create(*runtime, {});
///   auto group = (*optimizer)->AddGroup({.name = "all", .parameters = {weights}});
///   // In every step, once the gradients are ready:
///   auto step = (*optimizer)->Step();
///   if (!step.ok()) return step.status();
///   if (auto updated = step->WaitFor(*group); !updated.ok()) return updated;
///   auto save = (*optimizer)->StartSave("saves");  // later steps run beside it
///   if (!save.ok()) return save.status();
///   if (auto written = save->Wait(); !written.ok()) return written;

namespace sluice {

namespace internal {
class StepState;
class SaveState;
}  // namespace internal

/// Report of a step that is over (StepHandle::Wait).
struct OptimizerStep {
  std::int64_t step = 0;  ///< number of the step, from 1; a skipped step's comes again
  /// Whether the norm was not finite, so that nothing has changed.
  bool skipped = false;
  std::uint32_t groups = 0;  ///< groups that took part
  /// Norm of all gradients, unscaled, before clipping. None without clip_norm and skip_not_finite.
  std::optional<double> gradient_norm;
  /// Time of the optimizer's thread in this step. See WaitTimes for what counts as which wait.
  double wait_seconds = 0;        ///< blocked for pages: the sum of the next two
  double wait_read_seconds = 0;   ///< blocked for pages that are read
  double wait_write_seconds = 0;  ///< blocked for frames that are written first
  double compute_seconds = 0;     ///< updating
  /// Time of that thread, blocked until a save (StartSave) had what the step was to update.
  double save_seconds = 0;
};

/// Facts that a save says of itself.
struct OptimizerSave {
  std::int64_t step = 0;  ///< step after which the save was made
  std::string note;       ///< text that Save was given
};

/// A step that runs. A default-constructed handle is of no step: Ready is true, Wait and WaitFor
/// fail with FailedPrecondition. Threads: any. Lifetime: may outlive the optimizer.
class StepHandle {
 public:
  StepHandle();
  StepHandle(const StepHandle&);
  StepHandle& operator=(const StepHandle&);
  StepHandle(StepHandle&&) noexcept;
  StepHandle& operator=(StepHandle&&) noexcept;
  ~StepHandle();

  /// Whether Wait would not block.
  bool Ready() const;
  /// Whether WaitFor would not block.
  bool Ready(GroupId group) const;
  /// Blocks until the step is over. Errors:
  /// - That of the first update that failed names its parameter and elements. All others were done.
  ///   The next Step does those that are missing, of the same step.
  /// - FailedPrecondition: a repeated step would be skipped, and is in part done.
  /// - Cancelled: the optimizer was destroyed.
  /// - DeadlineExceeded: the step goes on, and may be waited for again.
  /// A caller that waits while it holds leases on what the step needs waits for ever. The log names
  /// such a lease after RuntimeOptions::stall_seconds.
  absl::StatusOr<OptimizerStep> Wait(Ticket::Deadline deadline = Ticket::Deadline::max());
  /// Blocks until every parameter of the group is updated, so that it may be used while the others
  /// are not. Errors: of Wait, as far as they concern the group; InvalidArgument (no such group).
  absl::Status WaitFor(GroupId group, Ticket::Deadline deadline = Ticket::Deadline::max());

 private:
  friend class OffloadedOptimizer;
  explicit StepHandle(std::shared_ptr<internal::StepState> state);
  std::shared_ptr<internal::StepState> state_;
};

/// A save that is being written (OffloadedOptimizer::StartSave). A default-constructed handle is of
/// no save: it is ready, and Wait fails with FailedPrecondition. Threads: any. Lifetime: may
/// outlive the optimizer. Fork: in a child it is ready, and Wait fails with FailedPrecondition.
class SaveHandle {
 public:
  SaveHandle();
  SaveHandle(const SaveHandle&);
  SaveHandle& operator=(const SaveHandle&);
  SaveHandle(SaveHandle&&) noexcept;
  SaveHandle& operator=(SaveHandle&&) noexcept;
  ~SaveHandle();

  /// Whether the save needs no more bytes from tensors, or has failed. Such a save slows no later
  /// update, and Wait blocks for the disk at most.
  bool HasEveryPart() const;
  /// Whether Wait would not block, since the save has its name or has failed.
  bool Ready() const;
  /// Blocks until the save has its name and is on the disk. The call makes the optimizer write the
  /// parts that no step has written. A caller that waits while it holds a lease that writes a
  /// parameter or a state waits for ever.
  ///
  /// Errors, after which the older save is there and nothing else, unless only the sync of the new
  /// save's directory failed:
  /// - The first one of the save, of those that OffloadedOptimizer::Save names.
  /// - Cancelled: the save was given up, or the optimizer destroyed, before it had every part.
  absl::Status Wait();
  /// Gives the save up, unless it has every part: no later update is slowed by it, Wait fails with
  /// Cancelled, and the older save stays.
  void GiveUp();

 private:
  friend class OffloadedOptimizer;
  explicit SaveHandle(std::shared_ptr<internal::SaveState> state);
  std::shared_ptr<internal::SaveState> state_;
};

}  // namespace sluice
