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
#include "runtime/optim/optimizer/parameter_entry.h"
#include "runtime/optim/save/part_saver.h"
#include "runtime/optim/step/fork_join.h"
#include "runtime/optim/step/gradient_passes.h"
#include "runtime/optim/step/op_pipeline.h"
#include "runtime/optim/step/part_update.h"
#include "runtime/optim/step/progress.h"
#include "runtime/optim/step/step_state.h"
#include "runtime/optim/step/update_batch.h"

namespace sluice::optim {

/// What a step is about. `entries` and all that they hold stay as they are while it runs.
struct StepPlan {
  std::int64_t step = 0;
  std::shared_ptr<internal::StepState> state;
  /// Updates wait for Release, as what they do depends on all gradients.
  bool waits = false;
  double clip_norm = 0;
  bool skip_not_finite = false;
  bool norm_given = false;
  std::size_t depth = 1;            ///< parts asked for ahead
  std::size_t batch_parts_max = 1;  ///< parts updated by one op
};

/// The optimizer's thread: does what it is told in order, and between that one batch after another.
/// Threads: all methods from one. Lifetime: what Options refers to outlives it.
class StepRunner {
 public:
  struct Options {
    Runtime& runtime;
    const OptimizerOptions& optimizer;
    PartSize parts;
    const std::deque<ParameterEntry>& entries;
    Progress& progress;
    /// Called on the thread when a step is over, before its StepState says so.
    std::function<void(bool failed, bool skipped)> over;
  };
  /// Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<StepRunner>> Create(const Options& options);
  /// After the batch that is being computed; whoever waits for the step is told by the owner.
  ~StepRunner();

  void BeginStep(const StepPlan& plan);
  /// Adds the entry's bound gradient to its accumulator. Blocks. Errors: those of Ticket::Take.
  absl::Status Accumulate(std::uint32_t entry, bool first);
  /// The entry's gradient is complete and counts for the norm.
  void Scan(std::uint32_t entry);
  /// Parts of one group are to be updated.
  void Update(std::uint32_t group, const GroupRates& rates, std::vector<Part> parts);
  /// From now on an update gives the save what it is about to change first, until the save has all.
  void BeginSave(std::shared_ptr<PartSaver> saver);
  /// Reads and writes what that save does not get by updates which can go on. Does not block.
  void WriteRestOfSave();
  /// All updates of the step have been given. `sits_out`: whether each group has no part in it.
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
    /// The number that its old bytes have in the save; 0: the save needs none of them.
    std::uint64_t save_number = 0;
  };

  StepRunner(const Options& options, std::unique_ptr<ForkJoin> join);
  void Post(Command command);
  void Run();
  /// The next command; one that is empty when there is a part to work on instead; nothing at the
  /// end.
  std::optional<Command> NextCommand();
  bool CanUpdate() const {
    return !(todo_.empty() && held_.empty()) && (released_ || !plan_.waits);
  }
  bool AsksForMore() const;
  void AskAhead();
  void UpdateOne();
  /// The batch that was asked for first gets its pages, and the save its old bytes.
  void HoldNext();
  /// The one that has held its pages for longest.
  void UpdateHeld();
  /// Nothing holds or asks for pages then, so that other ops of the lane can have theirs.
  void LetGoOfPages();
  void WriteRest();
  std::string NameOf(const UpdateBatch& batch) const;
  std::uint64_t ElementsOf(const UpdateBatch& batch) const;
  PartAccesses AccessesOfPart(Part part) const;
  void UpdateParts(const UpdateBatch& batch, RunningOp running);
  void RunKernels(const UpdateBatch& batch, std::span<const Lease> leases);
  void RunKernel(Part part, std::uint32_t group, std::span<const Lease> leases);
  /// The gradients that no part needs any more.
  void DiscardUsed(const UpdateBatch& batch);
  /// Next, each part gets an op of its own: what concerns one of them is no matter of the others.
  void TryEachAlone(const UpdateBatch& batch);
  /// Nothing more is updated in this step.
  void GiveUp();
  /// Every part that is left has failed.
  void FailAll(const absl::Status& status);
  void OnRelease(const StepOptions& options);
  void NoteNorm(const StepOptions& options);
  void Fail(Part part, std::uint32_t group, const absl::Status& status);
  void FinishIfDone();
  void EndStep(bool skipped);
  /// Whether a gradient is needed no more once its parameter is updated, though the step may have
  /// to be repeated.
  bool DiscardsEarly() const { return !plan_.waits || plan_.norm_given; }
  void DiscardGradient(std::uint32_t entry);
  GradientSource SourceOf(const ParameterEntry& entry) const;
  KernelSpec SpecOf(const ParameterEntry& entry) const;

  const Options options_;
  std::unique_ptr<ForkJoin> join_;
  OpPipeline pipeline_;
  GradientPasses passes_;

  // Of the thread alone.
  StepPlan plan_;
  std::vector<GroupRates> rates_;
  std::deque<UpdateBatch> todo_;  ///< the first pipeline_.asked() are asked for
  std::deque<HeldBatch> held_;    ///< batches that go before those, in order
  std::size_t parts_asked_ = 0;   ///< parts of both
  std::shared_ptr<PartSaver> saver_;
  /// The save is to be completed once no updates can go on.
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
