#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/step/fork_join.h"
#include "runtime/optim/step/gradient_passes.h"
#include "runtime/optim/step/op_pipeline.h"
#include "runtime/optim/step/part_update.h"
#include "runtime/optim/step/progress.h"
#include "runtime/optim/step/step_state.h"
#include "runtime/optim/step/update_batch.h"

namespace sluice::optim {

/// Settings of a step. The entries and their fields do not change while it runs.
struct StepSettings {
  std::int64_t step = 0;
  std::shared_ptr<internal::StepState> state;
  /// Whether updates wait for Release, as they depend on all gradients.
  bool waits = false;
  double clip_norm = 0;
  bool skip_not_finite = false;
  bool norm_given = false;
  std::size_t depth = 1;            ///< parts asked for ahead
  std::size_t batch_parts_max = 1;  ///< parts updated by one op
};

/// The optimizer's thread. It carries out commands in order, and between them updates one batch
/// after another. Threads: all methods from one. Lifetime: the objects of Options outlive the
/// runner.
class StepRunner {
 public:
  struct Options {
    Runtime& runtime;
    const OptimizerOptions& optimizer;
    PartSize parts;
    const std::deque<ParameterEntry>& entries;
    Progress& progress;
    /// Function that the thread calls when a step is over, before its StepState says so.
    std::function<void(bool failed, bool skipped)> over;
  };
  /// Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StepRunner>> Create(const Options& options);
  /// Ends the thread after the batch that is being computed. The owner tells those who wait for the
  /// step.
  ~StepRunner();

  void BeginStep(const StepSettings& settings);
  /// Adds the entry's bound gradient to its accumulator. Blocks. Errors: those of Ticket::Take.
  absl::Status Accumulate(std::uint32_t entry, bool first);
  /// Has a complete gradient read for the norm.
  void Scan(std::uint32_t entry);
  /// Has parts of one group updated.
  void Update(std::uint32_t group, const GroupRates& rates, std::vector<Part> parts);
  /// Starts a save. From now on each update first gives the save the bytes that it is about to
  /// change, until the save has all.
  void BeginSave(std::shared_ptr<PartSaver> saver);
  /// Has the rest of the save read and written, once no update can go on that would give it. Does
  /// not block.
  void WriteRestOfSave();
  /// Notes that all updates of the step have been given. `sits_out`: whether each group has no part
  /// in the step.
  void Release(const StepOptions& options, std::vector<bool> sits_out);

 private:
  struct Totals {
    double compute_seconds = 0;
    double save_seconds = 0;
    WaitTimes waited_before;
    std::optional<double> norm;
  };
  using Command = std::function<void()>;
  /// A batch whose pages are there.
  struct HeldBatch {
    UpdateBatch batch;
    RunningOp running;
    /// Number of the batch's old bytes in the save; 0: the save needs none of them.
    std::uint64_t save_number = 0;
  };

  StepRunner(const Options& options, std::unique_ptr<ForkJoin> join);
  void Post(Command command);
  void Run();
  /// The next command. It is empty when there is a part to work on instead. None: the end.
  std::optional<Command> NextCommand();
  bool CanUpdate() const {
    return !(todo_.empty() && held_.empty()) && (released_ || !settings_.waits);
  }
  bool AsksForMore() const;
  void AskAhead();
  void UpdateOne();
  /// Gets the pages of the batch that was asked for first, and gives the save its old bytes.
  void HoldNext();
  /// Updates the batch that has held its pages for longest.
  void UpdateHeld();
  /// Releases all pages, and asks for none, so that other ops of the lane can have theirs. The
  /// copies of parameters stay what they were if their pages are there before the deadline.
  void LetGoOfPages(Ticket::Deadline deadline);
  /// Writes the copies of a batch from its parameters, for an op that does not update these.
  void WriteCopies(const UpdateBatch& batch, std::span<const Lease> leases) const;
  void WriteRest();
  std::string NameOf(const UpdateBatch& batch) const;
  PartAccesses AccessesOfPart(Part part) const;
  void UpdateParts(const UpdateBatch& batch, RunningOp running);
  void RunKernels(const UpdateBatch& batch, std::span<const Lease> leases);
  void RunKernel(Part part, std::uint32_t group, std::span<const Lease> leases);
  /// Discards the gradients that no part needs any more.
  void DiscardUsed(const UpdateBatch& batch);
  /// Gives each part an op of its own next, so that the trouble of one part does not concern the
  /// others.
  void TryEachAlone(const UpdateBatch& batch);
  /// Ends the updates of this step. Waits for pages that copies were asked with.
  void GiveUp();
  /// Fails every part that is left.
  void FailAll(const absl::Status& status);
  void OnRelease(const StepOptions& options);
  void NoteNorm(const StepOptions& options);
  void Fail(Part part, std::uint32_t group, const absl::Status& status);
  void FinishIfDone();
  void EndStep(bool skipped);
  /// Whether a gradient can go once its parameter is updated, though the step may have to be
  /// repeated.
  bool DiscardsEarly() const { return !settings_.waits || settings_.norm_given; }
  void DiscardGradient(std::uint32_t entry);
  GradientSource SourceOf(const ParameterEntry& entry) const;
  KernelSpec SpecOf(const ParameterEntry& entry) const;

  const Options options_;
  std::unique_ptr<ForkJoin> join_;
  OpPipeline pipeline_;
  GradientPasses passes_;

  // Members of the thread alone.
  StepSettings settings_;
  std::vector<GroupRates> rates_;
  std::deque<UpdateBatch> todo_;  ///< batches to update; the first pipeline_.asked() are asked for
  std::deque<HeldBatch> held_;    ///< batches that go before those, in order
  std::size_t parts_asked_ = 0;   ///< parts of both
  std::shared_ptr<PartSaver> saver_;
  /// Whether the save is to be completed once no updates can go on.
  bool rest_wanted_ = false;
  Totals totals_;
  bool released_ = false;
  std::vector<bool> sits_out_;  ///< groups without a part in the step
  double gradient_scale_ = 1;
  absl::Status scan_status_;
  std::vector<double> squares_;  ///< sum of squares of each entry's gradient

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice::optim
