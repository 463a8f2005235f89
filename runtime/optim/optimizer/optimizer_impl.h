#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/owner_process.h"
#include "runtime/optim/optimizer/current_step.h"
#include "runtime/optim/optimizer/parameter_groups.h"
#include "runtime/optim/optimizer/step_gradients.h"
#include "runtime/optim/parameters/parameter_copies.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/parameters/parameter_table.h"
#include "runtime/optim/parameters/parameter_values.h"
#include "runtime/optim/parameters/state_tensors.h"
#include "runtime/optim/save/optimizer_saves.h"
#include "runtime/optim/step/progress.h"
#include "runtime/optim/step/step_runner.h"
#include "sluice/optimizer.h"

namespace sluice {
/// The side of the user's thread. One file per concern:
///   optimizer.cc           the public class
///   optimizer_groups.cc    groups, and entries of their parameters
///   optimizer_steps.cc     gradients and steps
///   optimizer_ahead.cc     pages ahead of a step
///   optimizer_save.cc      saves
///   optimizer_load.cc      loads of saves
class OffloadedOptimizer::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Create(Runtime& runtime,
                                                      const OptimizerOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Errors: FailedPrecondition in a child of fork, where nothing else may be called, nor the
  /// destructor: the optimizer's thread is not there, and its locks may be held for ever.
  absl::Status CheckProcess() const { return optim::CheckProcess(owner_); }

  optim::ParameterTable& parameters() { return table_; }
  absl::StatusOr<GroupId> AddGroup(const GroupOptions& options);
  absl::Status SetRates(GroupId group, const GroupRates& rates);
  absl::StatusOr<GroupRates> Rates(GroupId group) const;

  absl::Status RefreshCopies(GroupId group);
  absl::Status AddGradient(GroupId group);
  absl::Status ResetGradient(GroupId group);
  absl::Status GradientReady(GroupId group);
  absl::StatusOr<Bytes> Prefetch(std::span<const GroupId> groups, Bytes at_most);
  absl::StatusOr<StepHandle> Step(const StepOptions& options);
  absl::Status WaitFor(GroupId group, Ticket::Deadline deadline);
  std::int64_t step() const { return current_.done(); }
  /// Whether the sweep of the next step, or of the one under way, goes backwards.
  bool backwards() const;
  absl::StatusOr<ParameterState> State(TensorId parameter);
  /// Entry of a parameter whose group has no step under way. Errors: InvalidArgument (an unknown
  /// parameter), FailedPrecondition.
  absl::StatusOr<optim::ParameterEntry*> FindIdleEntry(TensorId parameter);
  /// Entry of a parameter between steps. Errors: InvalidArgument (an unknown parameter, another
  /// number of elements), those of CurrentStep::CheckIdle.
  absl::StatusOr<optim::ParameterEntry*> FindValues(TensorId parameter,
                                                    std::optional<std::size_t> elements);
  /// The parameters between steps, none of which a save needs any more. Blocks.
  absl::StatusOr<optim::ParameterTable*> IdleParameters();
  /// FindValues, after the last save is over. Blocks.
  absl::StatusOr<optim::ParameterEntry*> FindToWrite(TensorId parameter,
                                                     std::optional<std::size_t> elements);
  optim::ParameterValues values() const { return {runtime_, options_, parts_.elements}; }
  absl::Status SetStepsOf(TensorId parameter, std::int64_t steps);

  absl::StatusOr<SaveHandle> StartSave(const std::string& directory, std::string_view note);
  absl::Status Load(const std::string& directory);

 private:
  friend class internal::OptimizerAccess;
  using Group = optim::ParameterGroup;
  Impl(Runtime& runtime, const OptimizerOptions& options);

  bool NeedsAllGradients() const { return options_.clip_norm > 0 || options_.skip_not_finite; }
  /// Tells the groups of a step that is over. Every method begins with it. Returns the number of
  /// steps done, of which the groups then know.
  std::int64_t Settle();
  /// Finds a group that has no step under way.
  absl::StatusOr<Group*> FindIdleGroup(GroupId group);

  /// Makes the tensors and writes the masters' content, and checks that there is room.
  absl::Status MakeTensors(const std::string& group, std::vector<optim::NewEntry>* entries);

  absl::Status CheckGradients(const Group& group) const;
  absl::Status Accumulate(Group& group);
  /// Reads the group's gradients where the step needs their norm.
  void Scan(const Group& group);
  void Repeat();
  void BeginStep();
  /// Parts of the group that are not at the step yet, in the order of the sweep.
  std::vector<optim::Part> PartsLeft(const Group& group) const;
  void Update(std::uint32_t group);
  /// Updates every group that is ready, in the order of the sweep.
  void UpdateReady();
  /// Groups in the order of the sweep.
  std::vector<std::uint32_t> GroupOrder() const;

  const base::OwnerProcess owner_;
  Runtime& runtime_;
  const OptimizerOptions options_;
  const optim::PartSize parts_;
  optim::ParameterTable table_;
  const optim::StateTensors tensors_;
  const optim::ParameterCopies copies_;
  optim::ParameterGroups groups_;
  optim::StepGradients gradients_;
  optim::Progress progress_;
  optim::CurrentStep current_;
  std::unique_ptr<optim::StepRunner> runner_;  ///< destroyed second
  optim::OptimizerSaves saves_;                ///< saves, whose thread is destroyed first
};

}  // namespace sluice
