#include <utility>

#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/update_ops.h"
#include "workloads/gpt/training/update_states.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {
namespace {

/// One layer ahead of the forward, spread over its groups.
class OpUpdater : public Updater {
 public:
  explicit OpUpdater(const UpdaterParts& parts)
      : groups_(parts.train.batch / parts.train.group_sequences),
        memory_(parts.memory),
        ops_(parts) {}

  void Add(const Update& update) override { stages_ = ops_.Make(update); }
  bool pending() const override { return !stages_.empty(); }
  absl::Status Start() override { return absl::OkStatus(); }

  absl::Status Advance(const ForwardPlace& place) override {
    if (place.op != ForwardOp::kQkv) return absl::OkStatus();
    if (place.layer == kEmbedding && place.group == 0) {
      for (int each = 0; each < groups_; ++each) GPT_RETURN_IF_ERROR(RunShare(0, each));
    }
    return RunShare(static_cast<std::size_t>(place.layer + 2), place.group);
  }

  absl::Status Complete() override {
    for (std::vector<OpSpec>& ops : std::exchange(stages_, {})) {
      for (OpSpec& op : ops) {
        if (op.compute) GPT_RETURN_IF_ERROR(memory_.Run(std::move(op)));
      }
    }
    return absl::OkStatus();
  }

 private:
  /// The group's share of a stage.
  absl::Status RunShare(std::size_t stage, int group) {
    if (stage >= stages_.size()) return absl::OkStatus();
    std::vector<OpSpec>& ops = stages_[stage];
    const auto groups = static_cast<std::size_t>(groups_);
    const auto share = static_cast<std::size_t>(group);
    for (std::size_t i = ops.size() * share / groups; i < ops.size() * (share + 1) / groups; ++i) {
      GPT_RETURN_IF_ERROR(memory_.Run(std::exchange(ops[i], {})));
    }
    return absl::OkStatus();
  }

  const int groups_;
  Memory& memory_;
  const UpdateOps ops_;
  UpdateStages stages_;  ///< stages of the pending update; ops that have run are empty
};

}  // namespace

absl::StatusOr<std::unique_ptr<Updater>> MakeOpUpdater(const UpdaterParts& parts) {
  GPT_RETURN_IF_ERROR(CreateStates(parts));
  return std::unique_ptr<Updater>(new OpUpdater(parts));
}

}  // namespace sluice::gpt
