#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "sluice/optimizer.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/update_groups.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {
namespace {

/// Most threads that an OffloadedOptimizer takes.
constexpr int kThreadsMax = 256;

OptimizerOptions OptionsFor(const TrainConfig& train) {
  return {.kind = OptimizerKind::kAdamW,
          .state = train.states,
          .clip_norm = train.clip_norm,
          // The backward has summed up the squares while it held the gradients.
          .norm_given = train.clip_norm > 0,
          .seed = train.seed,
          // The forward waits for one layer after another.
          .order = SweepOrder::kForward,
          .threads = std::min(train.compute_threads, kThreadsMax),
          .lane = std::string(kUpdateLane)};
}

GroupRates RatesFor(const TrainConfig& train, bool decays) {
  return {.learning_rate = train.learning_rate,
          .beta1 = train.beta1,
          .beta2 = train.beta2,
          .eps = train.eps,
          .weight_decay = decays ? train.weight_decay : 0};
}

class OffloadedUpdater : public Updater {
 public:
  OffloadedUpdater(const UpdaterParts& parts, std::unique_ptr<OffloadedOptimizer> optimizer)
      : parts_(parts), optimizer_(std::move(optimizer)) {}

  /// Adds the groups in the order in which a forward needs them.
  absl::Status AddGroups() {
    for (const UpdateGroup& group : GroupsOf(parts_.parameters)) {
      GPT_RETURN_IF_ERROR(AddGroup(group));
    }
    return FindMoments();
  }

  absl::Status GradientsReady(int layer, double learning_rate) override {
    // Clipping needs the norm of all gradients first.
    if (parts_.train.clip_norm > 0) return absl::OkStatus();
    // The lower half is left to the next forward, so that either has its share. Which half does not
    // depend on speed: an iteration with other ops than the one before would have no plan.
    const auto layers = static_cast<int>(parts_.parameters.layers.size());
    if (layer < layers / 2) return absl::OkStatus();
    for (std::size_t i = 0; i < kGroupsPerLayer; ++i) {
      GPT_RETURN_IF_ERROR(BeginGroup(FirstOf(layer) + i, learning_rate));
    }
    return absl::OkStatus();
  }
  absl::Status FinishBegun() override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (begun_[i]) GPT_RETURN_IF_ERROR(Timed([&] { return optimizer_->WaitFor(groups_[i]); }));
    }
    return absl::OkStatus();
  }
  void Add(const Update& update) override { update_ = update; }
  bool pending() const override { return update_.has_value(); }
  OffloadedOptimizer* optimizer() override { return optimizer_.get(); }

  absl::Status Start() override {
    if (!update_ || step_) return absl::OkStatus();
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!begun_[i]) GPT_RETURN_IF_ERROR(BeginGroup(i, update_->learning_rate));
    }
    StepOptions options;
    if (parts_.train.clip_norm > 0) options.gradient_norm = update_->gradient_norm;
    GPT_ASSIGN_OR_RETURN(step_, optimizer_->Step(options));
    return absl::OkStatus();
  }

  absl::Status Advance(const ForwardPlace& place) override {
    if (!step_ || place.group != 0) return absl::OkStatus();
    if (place.layer != kEmbedding) {
      return WaitFor(groups_[FirstOf(place.layer) + static_cast<std::size_t>(place.op)]);
    }
    for (std::size_t i = 0; i < kGroupsBeforeLayers; ++i) GPT_RETURN_IF_ERROR(WaitFor(groups_[i]));
    return absl::OkStatus();
  }

  absl::Status Complete() override {
    if (!update_) return absl::OkStatus();
    GPT_RETURN_IF_ERROR(parts_.memory.Flush());
    GPT_RETURN_IF_ERROR(Start());
    GPT_RETURN_IF_ERROR(Timed([&] { return step_->Wait().status(); }));
    ForgetUpdate();
    return absl::OkStatus();
  }

  bool begun() const override {
    return !update_ && std::find(begun_.begin(), begun_.end(), true) != begun_.end();
  }

  absl::Status Repeat() override {
    if (step_) {
      // The optimizer repeats a step once all of it is over. The failure need not be the update's.
      const bool done = step_->Wait().ok();
      step_.reset();
      if (done) ForgetUpdate();
    }
    return Complete();
  }

  double stall_seconds() const override { return stall_seconds_; }

 private:
  /// Index of the first group of a layer, which has one for each op of its forward.
  static std::size_t FirstOf(int layer) {
    return kGroupsBeforeLayers + static_cast<std::size_t>(layer) * kGroupsPerLayer;
  }

  /// The update has been made.
  void ForgetUpdate() {
    step_.reset();
    update_.reset();
    begun_.assign(groups_.size(), false);
  }

  absl::Status BeginGroup(std::size_t index, double learning_rate) {
    rates_[index].learning_rate = learning_rate;
    GPT_RETURN_IF_ERROR(optimizer_->SetRates(groups_[index], rates_[index]));
    GPT_RETURN_IF_ERROR(optimizer_->GradientReady(groups_[index]));
    begun_[index] = true;
    return absl::OkStatus();
  }

  absl::Status WaitFor(GroupId group) {
    // The op that the memory has asked for runs meanwhile, and holds no pages that the update waits
    // for.
    if (!step_->Ready(group)) GPT_RETURN_IF_ERROR(parts_.memory.Flush());
    return Timed([&] { return step_->WaitFor(group); });
  }

  absl::Status Timed(absl::FunctionRef<absl::Status()> wait) {
    const auto begin = std::chrono::steady_clock::now();
    absl::Status done = wait();
    const std::chrono::duration<double> stalled = std::chrono::steady_clock::now() - begin;
    stall_seconds_ += stalled.count();
    return done;
  }

  absl::Status AddGroup(const UpdateGroup& group) {
    const bool vectors = parts_.parameters.all[group.parameters[0]].is_vector();
    GroupOptions options{.name = group.name, .rates = RatesFor(parts_.train, !vectors)};
    for (const std::size_t i : group.parameters) {
      options.parameters.push_back(parts_.tensors.values[i]);
    }
    GPT_ASSIGN_OR_RETURN(const GroupId id, optimizer_->AddGroup(options));
    groups_.push_back(id);
    rates_.push_back(options.rates);
    begun_.push_back(false);
    for (const std::size_t i : group.parameters) {
      // Vectors share pages, and a discard acts on whole pages only.
      GPT_RETURN_IF_ERROR(optimizer_->BindGradient(
          parts_.tensors.values[i], {.tensor = parts_.tensors.gradients[i], .discard = !vectors}));
    }
    return absl::OkStatus();
  }

  absl::Status FindMoments() {
    for (const TensorId parameter : parts_.tensors.values) {
      GPT_ASSIGN_OR_RETURN(const ParameterState state, optimizer_->State(parameter));
      for (std::size_t s = 0; s < state.states.size(); ++s) {
        parts_.tensors.moments[s].push_back(state.states[s]);
      }
      for (std::size_t s = 0; s < state.scales.size(); ++s) {
        parts_.tensors.scales[s].push_back(state.scales[s]);
      }
    }
    return absl::OkStatus();
  }

  const UpdaterParts parts_;
  const std::unique_ptr<OffloadedOptimizer> optimizer_;
  std::vector<GroupId> groups_;  ///< embedding, vectors, then op by op of the layers
  /// Rates of the configuration, whatever a loaded state says.
  std::vector<GroupRates> rates_;
  std::vector<bool> begun_;  ///< groups whose update has begun; update_ may be to come
  double stall_seconds_ = 0;
  std::optional<Update> update_;
  std::optional<StepHandle> step_;  ///< step of update_, once that has started
};

}  // namespace

absl::StatusOr<std::unique_ptr<Updater>> MakeOffloadedUpdater(const UpdaterParts& parts) {
  GPT_ASSIGN_OR_RETURN(
      std::unique_ptr<OffloadedOptimizer> optimizer,
      OffloadedOptimizer::Create(*parts.memory.runtime(), OptionsFor(parts.train)));
  auto updater = std::make_unique<OffloadedUpdater>(parts, std::move(optimizer));
  GPT_RETURN_IF_ERROR(updater->AddGroups());
  return updater;
}

}  // namespace sluice::gpt
