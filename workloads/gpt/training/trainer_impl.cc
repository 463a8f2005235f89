#include "workloads/gpt/training/trainer_impl.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/model/status.h"

namespace sluice::gpt {
namespace {

/// Errors: Cancelled, once the program asks to stop.
absl::Status CheckStop(const StopFn& stop) {
  return stop && stop() ? absl::CancelledError("stopped as asked for") : absl::OkStatus();
}

double StallSecondsOf(const Memory& memory, const Updater& updater) {
  return memory.stall_seconds() + updater.stall_seconds();
}

double NormOf(const StepResults& state) {
  double sum = 0;
  for (const double squares : state.gradient_squares) sum += squares;
  return std::sqrt(sum);
}

/// Linear warm-up, then constant.
double LearningRateOf(const TrainConfig& train, int step) {
  if (step >= train.warmup_steps) return train.learning_rate;
  return train.learning_rate * (step + 1) / train.warmup_steps;
}

/// Purpose of a layer's forward in a pass over all layers.
Pass PassOf(bool recomputes, Pass pass) {
  return pass == Pass::kTrain && recomputes ? Pass::kKeepInput : pass;
}

/// `pending`: an update of the step before is to be made.
StepKind KindOf(UpdateTime update, bool pending) {
  if (update == UpdateTime::kNever) return StepKind::kNone;
  if (update == UpdateTime::kNow) return pending ? StepKind::kLast : StepKind::kAlone;
  return pending ? StepKind::kUsual : StepKind::kFirst;
}

}  // namespace

Trainer::Impl::Impl(const ModelConfig& model,
                    const TrainConfig& train,
                    std::unique_ptr<ComputeThreads> threads,
                    const Dataset& data,
                    Memory& memory)
    : model_(model),
      train_(train),
      threads_(std::move(threads)),
      data_(data),
      memory_(memory),
      parameters_(model),
      ops_(model_, train_, parameters_, tensors_, *threads_, state_) {
  state_.gradient_squares.resize(parameters_.all.size());
  recompute_.assign(static_cast<std::size_t>(model.layers), train.recompute == Recompute::kAll);
}

absl::Status Trainer::Impl::SetUp() {
  GPT_ASSIGN_OR_RETURN(tensors_, Tensors::Create(model_, train_, parameters_, memory_));
  const UpdaterParts parts{train_, parameters_, tensors_, memory_};
  GPT_ASSIGN_OR_RETURN(
      updater_, memory_.runtime() == nullptr ? MakeOpUpdater(parts) : MakeOffloadedUpdater(parts));
  if (OffloadedOptimizer* const optimizer = updater_->optimizer(); optimizer != nullptr) {
    saves_ = std::make_unique<TrainerSaves>(*optimizer, train_.clip_norm > 0);
  }
  for (std::size_t i = 0; i < parameters_.all.size(); ++i) {
    GPT_RETURN_IF_ERROR(CheckStop(stop_));
    GPT_RETURN_IF_ERROR(Run(Initialise(i)));
  }
  return Flush();
}

absl::Status Trainer::Impl::Note(absl::Status status) {
  if (broken_.ok()) broken_ = std::move(status);
  return broken_;
}

absl::Status Trainer::Impl::Run(OpSpec op) {
  if (broken_.ok()) broken_ = memory_.Run(std::move(op));
  // The op before it may have computed nothing: no update takes what came of it.
  return Note(threads_->failure());
}

absl::Status Trainer::Impl::Flush() {
  if (broken_.ok()) broken_ = memory_.Flush();
  return Note(threads_->failure());
}

absl::Status Trainer::Impl::BeginIteration(std::string_view key) {
  if (broken_.ok()) broken_ = memory_.BeginIteration(key);
  return broken_;
}

absl::Status Trainer::Impl::RunGroupForward(int layer, int group, Pass pass) {
  GPT_RETURN_IF_ERROR(Advance({layer, group, ForwardOp::kQkv}));
  GPT_RETURN_IF_ERROR(Run(ops_.QkvForward({layer, group}, pass)));
  GPT_RETURN_IF_ERROR(Advance({layer, group, ForwardOp::kAttention}));
  GPT_RETURN_IF_ERROR(Run(ops_.AttentionForward({layer, group}, pass)));
  GPT_RETURN_IF_ERROR(Advance({layer, group, ForwardOp::kMlp}));
  return Run(ops_.MlpForward({layer, group}, pass));
}

absl::Status Trainer::Impl::RunForward(const BatchPointer& batch, Pass pass) {
  for (int group = 0; group < ops_.groups(); ++group) {
    GPT_RETURN_IF_ERROR(Advance({kEmbedding, group}));
    GPT_RETURN_IF_ERROR(Run(ops_.EmbedForward(batch, group)));
  }
  for (int layer = 0; layer < model_.layers; ++layer) {
    for (int group = 0; group < ops_.groups(); ++group) {
      GPT_RETURN_IF_ERROR(
          RunGroupForward(layer, group, PassOf(recompute_[static_cast<std::size_t>(layer)], pass)));
    }
  }
  return CompleteUpdate();
}

absl::Status Trainer::Impl::Advance(const ForwardPlace& place) {
  if (!broken_.ok() || !updater_->pending()) return broken_;
  return Note(updater_->Advance(place));
}

absl::Status Trainer::Impl::LeaveIteration() {
  if (broken_.ok()) broken_ = memory_.EndIteration();
  return CompleteUpdate();
}

absl::Status Trainer::Impl::CompleteUpdate() {
  if (!broken_.ok()) return broken_;
  if (updater_->pending()) GPT_RETURN_IF_ERROR(Note(updater_->Complete()));
  if (saves_ != nullptr) saves_->StartWanted();
  return absl::OkStatus();
}

absl::Status Trainer::Impl::RunGroupRecompute(int layer, int group) {
  GPT_RETURN_IF_ERROR(Run(ops_.QkvForward({layer, group}, Pass::kRecompute)));
  GPT_RETURN_IF_ERROR(Run(ops_.AttentionForward({layer, group}, Pass::kRecompute)));
  return Run(ops_.MlpRecompute({layer, group}));
}

absl::Status Trainer::Impl::RunGroupBackward(int layer, int group) {
  if (recompute_[static_cast<std::size_t>(layer)])
    GPT_RETURN_IF_ERROR(RunGroupRecompute(layer, group));
  GPT_RETURN_IF_ERROR(Run(ops_.ProjBackward({layer, group})));
  GPT_RETURN_IF_ERROR(Run(ops_.FcBackward({layer, group})));
  GPT_RETURN_IF_ERROR(Run(ops_.AttentionBackward({layer, group})));
  return Run(ops_.QkvBackward({layer, group}));
}

absl::Status Trainer::Impl::RunBackward(const BatchPointer& batch) {
  for (int group = 0; group < ops_.groups(); ++group) {
    GPT_RETURN_IF_ERROR(Run(ops_.HeadTrain(batch, group)));
  }
  for (int layer = model_.layers - 1; layer >= 0; --layer) {
    for (int group = 0; group < ops_.groups(); ++group) {
      GPT_RETURN_IF_ERROR(RunGroupBackward(layer, group));
    }
    GPT_RETURN_IF_ERROR(LayerIsDone(layer + 1));
  }
  for (int group = 0; group < ops_.groups(); ++group) {
    GPT_RETURN_IF_ERROR(Run(ops_.EmbedBackward(batch, group)));
  }
  return LayerIsDone(0);
}

absl::Status Trainer::Impl::LayerIsDone(int layer) {
  const bool complete = defers_update_ && state_.micro + 1 == train_.micro_batches;
  if (!broken_.ok() || !complete || layer == model_.layers) return broken_;
  return Note(updater_->GradientsReady(layer, LearningRateOf(train_, step_)));
}

absl::Status Trainer::Impl::RunMicroBatches() {
  for (state_.micro = 0; state_.micro < train_.micro_batches; ++state_.micro) {
    // The first micro-batch ends the update of the step before. From the second one on, the
    // parameters are those of a whole step. The step's own updates begin in the last one's backward
    // at the earliest.
    const absl::Status stopped = state_.micro > 0 ? CheckStop(stop_) : absl::OkStatus();
    if (!stopped.ok()) return DropStep(stopped);
    const auto batch = std::make_shared<const Batch>(
        data_.TrainBatch(std::int64_t{step_} * train_.micro_batches + state_.micro));
    GPT_RETURN_IF_ERROR(RunForward(batch, Pass::kTrain));
    GPT_RETURN_IF_ERROR(RunBackward(batch));
  }
  state_.micro = 0;
  return Flush();
}

absl::Status Trainer::Impl::SetRecompute(RecomputeChoice choice) {
  if (choice.size() != static_cast<std::size_t>(model_.layers)) {
    return absl::InvalidArgumentError(
        fmt::format("a choice for {} layers, the model has {}", choice.size(), model_.layers));
  }
  recompute_ = std::move(choice);
  return absl::OkStatus();
}

absl::StatusOr<StepResult> Trainer::Impl::Step(UpdateTime update) {
  if (train_.optimizer == OptimizerChoice::kNone) update = UpdateTime::kNever;
  if (update == UpdateTime::kNever) GPT_RETURN_IF_ERROR(LeaveIteration());
  const StepKind kind = KindOf(update, updater_->pending());
  const double stalled = StallSecondsOf(memory_, *updater_);
  std::string key(kTrainKeys[static_cast<std::size_t>(kind)]);
  key += KeySuffix(recompute_);
  if (saves_ != nullptr && saves_->AreWrittenBy(update)) key += kSaveSuffix;
  GPT_RETURN_IF_ERROR(BeginIteration(key));
  step_keys_.insert(key);
  state_.loss_sum = 0;
  state_.drops_gradients = update == UpdateTime::kNever;
  defers_update_ = update == UpdateTime::kDeferred;
  if (updater_->pending()) GPT_RETURN_IF_ERROR(Note(updater_->Start()));
  GPT_RETURN_IF_ERROR(RunMicroBatches());
  const double rows = double(train_.batch) * train_.micro_batches * model_.context;
  const auto loss = static_cast<float>(state_.loss_sum / rows);
  // The save's last parts are not written before updates of this step.
  if (saves_ != nullptr && !std::isfinite(loss)) saves_->GiveUp(step_);
  const double rate = LearningRateOf(train_, step_);
  const double norm = NormOf(state_);
  // All gradients are complete. From here on the step can be made whole, whatever fails.
  ++step_;
  if (update != UpdateTime::kNever) updater_->Add({++updates_, rate, norm});
  GPT_RETURN_IF_ERROR(Note(updater_->FinishBegun()));
  if (update == UpdateTime::kNow) GPT_RETURN_IF_ERROR(CompleteUpdate());
  GPT_RETURN_IF_ERROR(Flush());
  return StepResult{.loss = loss,
                    .grad_norm = norm,
                    .learning_rate = rate,
                    .kind = kind,
                    .key = std::move(key),
                    .stall_seconds = StallSecondsOf(memory_, *updater_) - stalled};
}

absl::StatusOr<float> Trainer::Impl::Validate() {
  GPT_RETURN_IF_ERROR(LeaveIteration());
  GPT_RETURN_IF_ERROR(BeginIteration(kValidateKey));
  state_.loss_sum = 0;
  for (int index = 0; index < train_.val_batches; ++index) {
    const absl::Status stopped = index > 0 ? CheckStop(stop_) : absl::OkStatus();
    if (!stopped.ok()) {
      GPT_RETURN_IF_ERROR(LeaveIteration());
      return stopped;
    }
    const auto batch = std::make_shared<const Batch>(data_.ValidationBatch(index));
    GPT_RETURN_IF_ERROR(RunForward(batch, Pass::kEvaluate));
    for (int group = 0; group < ops_.groups(); ++group) {
      GPT_RETURN_IF_ERROR(Run(ops_.HeadEvaluate(batch, group)));
    }
  }
  GPT_RETURN_IF_ERROR(Flush());
  const double rows = double(train_.val_batches) * train_.batch * model_.context;
  return static_cast<float>(state_.loss_sum / rows);
}

}  // namespace sluice::gpt
