// A loop that repeats itself: eight layers of 4 MiB, forward and backward, under a budget
// of 12 MiB. The runtime records the first iteration and moves pages ahead of need in the others.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using sluice::AccessMode, sluice::TensorId;
using namespace sluice::literals;

constexpr int kLayers = 8;
constexpr std::int64_t kElements = 1 << 20;

struct Layer {
  TensorId weights;
  TensorId activations;
};

void Forward(sluice::Runtime& runtime, const Layer& layer) {
  sluice::Op op = runtime.BeginOp({.name = "forward"});
  const auto leases =
      Check(op.AcquireAll({{.tensor = layer.weights},
                           {.tensor = layer.activations,
                            .mode = AccessMode::kOverwrite,
                            .recompute_seconds = 1e-3}})  // recorded, for `sluice lab run`
                .Take());
  const auto weights = leases[0].As<float>(), activations = leases[1].As<float>();
  for (std::int64_t i = 0; i < kElements; ++i) activations[i] = 2 * weights[i];
}

void Backward(sluice::Runtime& runtime, const Layer& layer) {
  sluice::Op op = runtime.BeginOp({.name = "backward"});
  const auto leases =
      Check(op.AcquireAll({{.tensor = layer.weights, .mode = AccessMode::kReadWrite},
                           {.tensor = layer.activations}})
                .Take());
  const auto weights = leases[0].As<float>(), activations = leases[1].As<float>();
  for (std::int64_t i = 0; i < kElements; ++i) weights[i] += activations[i] - weights[i];
  Check(runtime.Discard(layer.activations));  // dead from here on: they cost no write
}

/// Prints what a recorded iteration does. Returns the number of activations that a tool could make
/// again in place of keeping.
int PrintSchedule(const sluice::Schedule& schedule) {
  int recomputable = 0;
  for (const sluice::ScheduleOp& op : schedule.ops) {
    std::printf("%s in lane %s, %.4f s:", op.name.c_str(), op.lane.c_str(), op.seconds);
    for (const sluice::ScheduleAccess& access : op.accesses) {
      const sluice::ScheduleTensor& tensor = schedule.tensors[access.tensor];
      std::printf(
          " %s of %s", std::string(sluice::ToString(access.mode)).c_str(), tensor.name.c_str());
      recomputable += access.recompute_seconds.has_value();
    }
    for (const sluice::ScheduleAccess& dead : op.discards) {
      std::printf(", %s is dead", schedule.tensors[dead.tensor].name.c_str());
    }
    std::printf("\n");
  }
  std::printf("%s: %zu ops on %zu tensors, pages of %ju bytes\n",
              schedule.key.c_str(),
              schedule.ops.size(),
              schedule.tensors.size(),
              std::uintmax_t{schedule.page_bytes});
  return recomputable;
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.hbm_bytes = 12_MiB;
  options.dram_bytes = 16_MiB;
  options.nvme_bytes = 96_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) {
    const auto make = [&](const char* name, sluice::TensorKind kind) {
      return Check(runtime->CreateTensor(
          {.name = name + std::to_string(i), .shape = {kElements}, .kind = kind}));
    };
    layers.push_back({make("weights", sluice::TensorKind::kParameter),
                      make("activations", sluice::TensorKind::kActivation)});
    const std::vector<float> ones(kElements, 1.0f);
    Check(runtime->Write(layers.back().weights, std::as_bytes(std::span(ones))));
  }
  for (int step = 1; step <= 6; ++step) {
    const sluice::Stats before = runtime->GetStats();
    Check(runtime->BeginIteration("step"));
    for (int i = 0; i < kLayers; ++i) Forward(*runtime, layers[i]);
    for (int i = kLayers - 1; i >= 0; --i) Backward(*runtime, layers[i]);
    Check(runtime->EndIteration());
    const sluice::Stats now = runtime->GetStats();
    std::printf("step %d: %.3f s of stalls, %ju pages came before they were asked for\n",
                step,
                now.stall_seconds - before.stall_seconds,
                std::uintmax_t{now.prefetch.hit - before.prefetch.hit});
  }
  const sluice::Schedule schedule = Check(runtime->RecordedSchedule("step"));
  const int recomputable = PrintSchedule(schedule);
  std::vector<float> weights(kElements);
  Check(runtime->Read(layers[0].weights, std::as_writable_bytes(std::span(weights))));
  return weights[0] == 64 && recomputable == kLayers && schedule.ops.size() == 2 * kLayers ? 0 : 1;
}
