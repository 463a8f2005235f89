// Nothing of the model stays in the program's own memory: parameters, bf16 copies, gradients and
// states are all tensors. Groups are updated as their gradients come, and are waited for one by
// one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;
using sluice::AccessMode, sluice::DType, sluice::TensorId, sluice::TensorKind;

constexpr std::size_t kLayers = 6;
constexpr std::int64_t kElements = 1 << 19;
constexpr int kSteps = 10;
constexpr double kRate = 0.05;

float FromBf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
std::uint16_t ToBf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

struct Layer {
  TensorId weights, copy, gradient;
  sluice::GroupId group;
};

/// Stands for the forward of a layer: reads the bf16 copy.
void Forward(sluice::Runtime& runtime, const Layer& layer) {
  sluice::Op op = runtime.BeginOp({.name = "forward"});
  Check(op.Acquire({.tensor = layer.copy}));
}

/// Stands for its backward: writes the gradient of (w - 1)^2 / 2.
void Backward(sluice::Runtime& runtime, const Layer& layer) {
  sluice::Op op = runtime.BeginOp({.name = "backward"});
  const std::vector<sluice::Lease> leases =
      Check(op.AcquireAll({{.tensor = layer.copy},
                           {.tensor = layer.gradient, .mode = AccessMode::kOverwrite}})
                .Take());
  const auto weights = leases[0].As<std::uint16_t>(), gradient = leases[1].As<std::uint16_t>();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    gradient[i] = ToBf16(FromBf16(weights[i]) - 1);
  }
}

/// The model and its optimizer: Lion, whose states have a byte per parameter and stay in dram.
class Model {
 public:
  explicit Model(sluice::Runtime& runtime)
      : runtime_(runtime),
        optimizer_(
            Check(sluice::OffloadedOptimizer::Create(runtime,
                                                     {.kind = sluice::OptimizerKind::kLion,
                                                      .state = sluice::StateType::k8Bit,
                                                      .lowest = sluice::TierKind::kDram,
                                                      .seed = 7,  // stochastic rounding
                                                      .order = sluice::SweepOrder::kAlternate,
                                                      .threads = 2,
                                                      .depth = 4}))) {
    for (std::size_t i = 0; i < kLayers; ++i) AddLayer(std::to_string(i));
  }

  /// The forward waits for one group after the other. In the backward each group is updated from
  /// its GradientReady on, while the gradients of the next ones are made.
  void Step() {
    for (const Layer& layer : layers_) {
      if (started_ > 0) Check(last_.WaitFor(layer.group));
      Forward(runtime_, layer);
    }
    if (started_ > 0) Check(last_.Wait());
    const bool backwards = optimizer_->backwards();  // order that meets what stayed in dram
    for (std::size_t i = 0; i < kLayers; ++i) {
      const Layer& layer = layers_[backwards ? kLayers - 1 - i : i];
      Backward(runtime_, layer);
      Check(optimizer_->GradientReady(layer.group));
    }
    Check(optimizer_->WaitFor(layers_[0].group));  // an update needs no Step to begin
    last_ = Check(optimizer_->Step());
    ++started_;
  }

  /// Waits for the last step, and prints what its thread did.
  void Finish() {
    const sluice::OptimizerStep done = Check(last_.Wait());
    std::printf("step %jd: computed %.3f s, waited %.3f s for reads and %.3f s for writes\n",
                static_cast<std::intmax_t>(done.step),
                done.compute_seconds,
                done.wait_read_seconds,
                done.wait_write_seconds);
  }

  /// Whether a layer is where kSteps of Lion with these gradients lead, and its gradient is dead.
  bool IsRight(std::size_t index) {
    const Layer& layer = layers_[index];
    std::vector<float> weights(kElements);
    std::vector<std::uint16_t> gradient(kElements, 1);
    Check(runtime_.Read(layer.weights, std::as_writable_bytes(std::span(weights))));
    Check(runtime_.Read(layer.gradient, std::as_writable_bytes(std::span(gradient))));
    const double rate = Check(optimizer_->Rates(layer.group)).learning_rate;
    const bool arrived = std::ranges::all_of(weights, [&](float weight) {
      return std::abs(static_cast<double>(weight) - kSteps * rate) < 1e-5;
    });
    return arrived && std::ranges::all_of(gradient, [](std::uint16_t bits) { return bits == 0; }) &&
           last_.Ready(layer.group) && Check(optimizer_->State(layer.weights)).missing.empty();
  }

 private:
  void AddLayer(const std::string& name) {
    Layer layer;
    const auto make = [&](const char* what, DType type, TensorKind kind) {
      return Check(runtime_.CreateTensor(
          {.name = name + what, .shape = {kElements}, .dtype = type, .kind = kind}));
    };
    layer.weights = make(".weight", DType::kF32, TensorKind::kParameter);
    layer.copy = make(".copy", DType::kBF16, TensorKind::kParameter);
    layer.gradient = make(".gradient", DType::kBF16, TensorKind::kGradient);
    layer.group = Check(optimizer_->AddGroup(
        {.name = name, .parameters = {layer.weights}, .rates = {.learning_rate = kRate}}));
    // A gradient is dead once its parameter is updated, so no page of it is written for nothing.
    Check(optimizer_->BindGradient(
        layer.weights, {.type = DType::kBF16, .tensor = layer.gradient, .discard = true}));
    Check(optimizer_->BindCopy(layer.weights, {.type = DType::kBF16, .tensor = layer.copy}));
    Check(optimizer_->RefreshCopies(layer.group));
    layers_.push_back(layer);
  }

  sluice::Runtime& runtime_;
  std::unique_ptr<sluice::OffloadedOptimizer> optimizer_;
  std::vector<Layer> layers_;
  sluice::StepHandle last_;
  int started_ = 0;
};

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 16_MiB;
  options.nvme_bytes = 48_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  Model model(*runtime);
  for (int step = 0; step < kSteps; ++step) model.Step();
  model.Finish();
  bool right = true;
  for (std::size_t i = 0; i < kLayers; ++i) right = model.IsRight(i) && right;
  std::printf("%s\n", right ? "all layers are where Lion leads" : "a layer is wrong");
  return right ? 0 : 1;
}
