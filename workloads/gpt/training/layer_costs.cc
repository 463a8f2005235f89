#include "workloads/gpt/training/layer_costs.h"

#include <map>
#include <string>

#include "fmt/format.h"
#include "workloads/gpt/training/updater.h"

namespace sluice::gpt {
namespace {

/// Share of MlpForward that runs again. Its two products of one size take nearly all of its time,
/// and the second one does not run again.
constexpr double kMlpShare = 0.5;

/// The ops of a schedule by name.
class Timeline {
 public:
  struct Entry {
    const ScheduleOp* op = nullptr;
    double begin = 0;
    double end = 0;
  };

  explicit Timeline(const Schedule& schedule) : schedule_(schedule) {
    double now = 0;
    for (const ScheduleOp& op : schedule.ops) {
      if (op.lane == kUpdateLane) continue;
      entries_[op.name] = {&op, now, now + op.seconds};
      now += op.seconds;
    }
  }

  Entry Find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? Entry() : found->second;
  }

  /// Adds the tensors with this prefix that the op writes.
  void AddWritten(const Entry& entry, const std::string& prefix, LayerCosts* costs) const {
    if (entry.op == nullptr) return;
    for (const ScheduleAccess& access : entry.op->accesses) {
      const ScheduleTensor& tensor = schedule_.tensors[access.tensor];
      if (access.mode == AccessMode::kRead || !tensor.name.starts_with(prefix)) continue;
      costs->tensors.push_back(access.tensor);
      costs->bytes += static_cast<double>(tensor.bytes);
    }
  }

 private:
  const Schedule& schedule_;
  std::map<std::string, Entry> entries_;
};

void AddGroup(const Timeline& timeline, int layer, int group, LayerCosts* costs) {
  const auto find = [&](const char* what) {
    return timeline.Find(fmt::format("l{}.{}.g{}", layer, what, group));
  };
  for (const char* what : {"qkv.forward", "attention.forward", "mlp.forward"}) {
    const Timeline::Entry op = find(what);
    timeline.AddWritten(op, fmt::format("stash.l{}.", layer), costs);
    const double share = std::string(what) == "mlp.forward" ? kMlpShare : 1;
    costs->recompute_seconds += share * (op.end - op.begin);
  }
  costs->idle_seconds += find("proj.backward").begin - find("mlp.forward").end;
}

}  // namespace

std::vector<LayerCosts> FindLayerCosts(const ModelConfig& model,
                                       const TrainConfig& train,
                                       const Schedule& schedule) {
  const Timeline timeline(schedule);
  const int groups = train.micro_batches * (train.batch / train.group_sequences);
  std::vector<LayerCosts> layers(static_cast<std::size_t>(model.layers));
  for (int layer = 0; layer < model.layers; ++layer) {
    LayerCosts& costs = layers[static_cast<std::size_t>(layer)];
    for (int group = 0; group < groups; ++group) AddGroup(timeline, layer, group, &costs);
    costs.idle_seconds /= groups;
  }
  return layers;
}

}  // namespace sluice::gpt
