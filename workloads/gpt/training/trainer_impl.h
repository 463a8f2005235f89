#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/gpt/model/model_ops.h"
#include "workloads/gpt/model/parameters.h"
#include "workloads/gpt/model/tensors.h"
#include "workloads/gpt/training/trainer.h"
#include "workloads/gpt/training/trainer_saves.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {

/// Order of the ops: forward layer by layer, backward in reverse, each group by group, one
/// micro-batch after another. A deferred update runs within the next forward, or begins in the
/// backward.
class Trainer::Impl {
 public:
  Impl(const ModelConfig& model,
       const TrainConfig& train,
       std::unique_ptr<ComputeThreads> threads,
       const Dataset& data,
       Memory& memory);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Creates the tensors and fills the parameters.
  absl::Status SetUp();

  void SetStop(StopFn stop) { stop_ = std::move(stop); }
  absl::Status SetRecompute(RecomputeChoice choice);
  absl::StatusOr<StepResult> Step(UpdateTime update);
  absl::StatusOr<float> Validate();
  const absl::Status& failure() const { return broken_; }
  absl::Status Recover();
  absl::Status SaveState(const std::string& directory, std::string_view note);
  absl::Status LoadState(const std::string& directory);
  absl::Status FillParameters(const ParameterFill& fill);
  absl::Status StartSave(const std::string& directory, std::string_view note);
  absl::Status FinishSave();
  absl::Status VisitParameters(const StateVisitor& visit);
  absl::Status VisitMoments(const StateVisitor& visit);

  TrainerSaves* saves() const { return saves_.get(); }
  const ParameterList& parameters() const { return parameters_; }
  ComputeThreads& threads() const { return *threads_; }
  const GemmShapes& gemms() const { return ops_.gemms(); }
  const RecomputeChoice& recompute() const { return recompute_; }
  int step() const { return step_; }
  const std::set<std::string>& step_keys() const { return step_keys_; }

 private:
  using BatchPointer = ModelOps::BatchPointer;

  // The Memory's methods, until one of them fails.
  absl::Status Run(OpSpec op);
  absl::Status Flush();
  /// Remembers the first error.
  absl::Status Note(absl::Status status);
  absl::Status BeginIteration(std::string_view key);

  absl::Status RunForward(const BatchPointer& batch, Pass pass);
  absl::Status RunGroupForward(int layer, int group, Pass pass);
  absl::Status RunBackward(const BatchPointer& batch);
  /// Tells the updater that the layer's gradients are complete, if this micro-batch completes them.
  /// REQUIRES: an op was given to Run after those of the layer, so they have run.
  absl::Status LayerIsDone(int layer);
  absl::Status RunGroupRecompute(int layer, int group);
  absl::Status RunGroupBackward(int layer, int group);
  absl::Status RunMicroBatches();
  /// Ends a step before its updates begin, as if it had not been called.
  absl::Status DropStep(absl::Status why);
  absl::Status Advance(const ForwardPlace& place);
  /// Runs all of a pending update.
  absl::Status CompleteUpdate();
  /// Ends the iteration, and completes the update for callers that look at the parameters.
  absl::Status LeaveIteration();
  OpSpec Initialise(std::size_t parameter) const;
  /// Streams a tensor of the name, range by range.
  absl::Status Visit(const std::string& name,
                     TensorId tensor,
                     std::uint64_t bytes,
                     const StateVisitor& visit);

  const ModelConfig model_;
  const TrainConfig train_;
  const std::unique_ptr<ComputeThreads> threads_;
  const Dataset& data_;
  Memory& memory_;
  const ParameterList parameters_;
  Tensors tensors_;
  StepResults state_;
  const ModelOps ops_;
  std::unique_ptr<Updater> updater_;
  StopFn stop_;
  absl::Status broken_;
  /// Whether the update may start before the step ends.
  bool defers_update_ = false;
  int step_ = 0;
  std::int64_t updates_ = 0;
  RecomputeChoice recompute_;
  std::unique_ptr<TrainerSaves> saves_;  ///< saves; null: the Memory cannot save
  std::set<std::string> step_keys_;
};

}  // namespace sluice::gpt
