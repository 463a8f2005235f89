#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/tensor.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/dataset.h"
#include "workloads/gpt/training/recompute.h"

namespace sluice::gpt {

/// Time at which a step's update of the parameters runs. The first two give the same bits.
enum class UpdateTime : std::uint8_t {
  kNow,  ///< update at the end of the step
  /// Update during the next step's forward, layer by layer, just before the parameters are needed.
  /// So the pages that the update moves hide behind compute. Other calls that need the parameters
  /// complete the update. An OffloadedOptimizer that does not clip updates the upper half of the
  /// layers in the backward.
  kDeferred,
  /// No update: the gradients are dropped, and the parameters stay as they are.
  kNever,
};

/// Kinds of steps by the updates within them, for layers whose update is deferred to the next step.
enum class StepKind : std::uint8_t {
  kUsual,  ///< the previous step's update within the forward, none at the end
  kFirst,  ///< no update
  kLast,   ///< both updates
  kAlone,  ///< the step's own update at the end
  kNone,   ///< none, not even a deferred one
};

/// The iteration keys of steps by StepKind. A choice of layers to recompute adds its KeySuffix. A
/// save that the step's updates write adds kSaveSuffix.
inline constexpr std::string_view kTrainKeys[] = {
    "train", "train.first", "train.last", "train.alone", "train.none"};

inline constexpr std::string_view kSaveSuffix = ".save";

/// Outcome of a save that Trainer::StartSave was asked for.
struct FinishedSave {
  /// The step after which the save was made.
  int step = 0;
  std::string directory;
  absl::Status status;
};

struct StepResult {
  float loss = 0;  ///< mean cross-entropy before the update, in nats per byte
  double grad_norm = 0;
  double learning_rate = 0;
  StepKind kind = StepKind::kUsual;
  std::string key;  ///< key of the iteration
  /// Time that the trainer's thread has waited for pages and updates.
  double stall_seconds = 0;
};

inline constexpr std::string_view kValidateKey = "validate";

/// One matrix product as the model asks for it, row-major: C[m,n] = op(A) op(B), `count` per step.
struct GemmShape {
  int m = 0;
  int n = 0;
  int k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t count = 0;
};

/// Receives a piece of a tensor: its name, the piece's offset in bytes, and the bytes (only valid
/// during the call). An error ends the stream and is returned.
using StateVisitor = std::function<absl::Status(
    const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes)>;

/// Writes values of a parameter, from an element on; the span is only valid during the call.
using ParameterFill = std::function<absl::Status(
    const std::string& parameter, std::uint64_t element, std::span<float> values)>;
/// Function asked between pieces of work. True: the work stops there. The function may call
/// Trainer::SaveState.
using StopFn = std::function<bool()>;

class ComputeThreads;

/// Trains a byte-level GPT with every tensor in a Memory. Parameters are read in hbm. Weight
/// gradients, AdamW moments and the update are in dram. If a Runtime pages the tensors, its
/// OffloadedOptimizer makes the updates. Activations are stashed in hbm after each layer's forward.
/// The backward reads them in reverse order, or makes them again.
///
/// Results are bit-identical for the same configs and data, whatever the Memory, the number of
/// threads and the layers that are recomputed. After an error of the Memory a step may be half
/// done: every later call answers with that error, until Recover.
///
/// Threads: externally synchronised. Lifetime: `memory` and `data` outlive it.
class Trainer {
 public:
  /// Creates and initialises every tensor. Errors: InvalidArgument (config), ResourceExhausted (a
  /// thread is refused), those of Memory; Cancelled. `stop`: see SetStop, and asked once for each
  /// parameter; empty: never.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const ModelConfig& model,
                                                         const TrainConfig& train,
                                                         const Dataset& data,
                                                         Memory& memory,
                                                         StopFn stop = {});
  ~Trainer();

  /// Sets the function that is asked before each micro-batch but a step's first, and before each
  /// validation batch but the first. True: Step and Validate end with Cancelled, as if they had not
  /// been called. Step stops before its own updates begin, and no later.
  void SetStop(StopFn stop);
  /// Sets the layers that later steps recompute; at first they are those of TrainConfig::recompute.
  /// Errors: InvalidArgument (not one element per layer).
  absl::Status SetRecompute(RecomputeChoice choice);
  const RecomputeChoice& recompute() const;
  /// One training step. Errors: those of Memory; Cancelled.
  absl::StatusOr<StepResult> Step(UpdateTime update = UpdateTime::kNow);
  /// Mean loss over the validation batches, iteration key kValidateKey. Errors: those of Memory;
  /// Cancelled.
  absl::StatusOr<float> Validate();

  /// The error that every call answers with; OK while there is none.
  const absl::Status& failure() const;
  /// Makes one step whole after failure(). It frees activations and, if no update of the failed
  /// step has begun, that step's gradients. Then it repeats the missing part of the last update.
  /// After that the trainer is as after step(), and may be saved. Errors: those of the part that is
  /// still missing, which may be tried again; FailedPrecondition (updates began in a backward that
  /// was not finished).
  absl::Status Recover();

  /// Streams parameters, then first moments ("NAME.m", and of 8-bit ones "NAME.m.scale"), then
  /// second ones ("NAME.v"). Each kind is in the order of ParameterSpecs, piece by piece through
  /// leases, outside of any iteration.
  absl::Status ForEachState(const StateVisitor& visit);
  /// SaveState completes a pending update, then writes parameters, moments and the number of steps
  /// to `directory`. LoadState reads them into a trainer of the same configs, which goes on as if
  /// it had made the steps. `note`: for OffloadedOptimizer::ReadSave. Errors: those of
  /// OffloadedOptimizer::Save and Load; Unimplemented (a Memory without a Runtime),
  /// FailedPrecondition (saving after steps without an update).
  absl::Status SaveState(const std::string& directory, std::string_view note = {});
  absl::Status LoadState(const std::string& directory);
  /// Replaces every parameter, piece by piece; moments stay zero. Errors: FailedPrecondition (after
  /// a step), those of Memory and of `fill`. An error of `fill` ends the training.
  absl::Status FillParameters(const ParameterFill& fill);
  /// Starts a SaveState beside the steps that follow (OffloadedOptimizer::StartSave), and returns
  /// at once. The save is of the steps done by now. If an update is pending, the next step makes
  /// the snapshot once the update is complete, before updates of its own begin. Parts of the save
  /// that later updates write slow these updates; the iteration keys of their steps end in
  /// kSaveSuffix.
  ///
  /// A save that was asked for before, and is not whole, is completed first. A next step whose loss
  /// is no finite number gives the save up before its own updates write the rest. TakeFinishedSaves
  /// tells the outcome, files included; no step fails because of it.
  ///
  /// Errors: Unimplemented, FailedPrecondition as of SaveState; those of a step that failed.
  absl::Status StartSave(const std::string& directory, std::string_view note = {});
  /// Completes a pending update, and blocks until the last save of StartSave is over. It works also
  /// after a failed step, as far as the saved content is still there. Errors: that of the save,
  /// which TakeFinishedSaves tells too; OK where there is none.
  absl::Status FinishSave();
  /// Gives up the save after `step`, unless it has all its parts by now.
  void GiveUpSave(int step);
  /// The saves that are over and that no earlier call has returned, in order. Does not block.
  std::vector<FinishedSave> TakeFinishedSaves();
  /// Streams the parameters alone.
  absl::Status ForEachParameter(const StateVisitor& visit);
  std::vector<TensorSpec> ParameterSpecs() const;

  /// Number of floating-point operations in the matrix products of a step that recomputes no layer.
  double FlopsPerStep() const;
  /// Threads of the products. REQUIRES, to use them: no other method runs.
  ComputeThreads& compute_threads() const;
  /// Number of steps done.
  int step() const;
  /// Iteration keys of the steps.
  const std::set<std::string>& step_keys() const;

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::gpt
