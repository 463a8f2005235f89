// Mixed precision: fp32 parameters and states are paged, the forward reads bf16 copies, and bf16
// gradients of four micro-batches are summed in fp32. A step with an infinite gradient is skipped.
#include <bit>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::int64_t kElements = 1 << 21;
constexpr int kMicroBatches = 4, kSteps = 30, kBadStep = 2, kLostStep = 5;

float FromBf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
std::uint16_t ToBf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

/// Stands for forward and backward: the gradient of (w - 1)^2 / 2, times the loss scale. Returns
/// the first element's loss.
float Backward(const std::vector<std::uint16_t>& weights,
               double scale,
               std::vector<std::uint16_t>& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    gradients[i] = ToBf16((FromBf16(weights[i]) - 1) * static_cast<float>(scale / kMicroBatches));
  }
  return (FromBf16(weights[0]) - 1) * (FromBf16(weights[0]) - 1) / 2;
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 20_MiB;
  options.nvme_bytes = 64_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId parameter =
      Check(runtime->CreateTensor({.name = "weight", .shape = {kElements}}));
  const auto optimizer =
      Check(sluice::OffloadedOptimizer::Create(*runtime,
                                               {.accumulator_lowest = sluice::TierKind::kNvme,
                                                .accumulate = sluice::DType::kF32,
                                                .clip_norm = 1e4,
                                                .skip_not_finite = true}));
  const std::vector<sluice::GroupId> groups = {
      Check(optimizer->AddGroup({.name = "all", .parameters = {parameter}}))};
  std::vector<std::uint16_t> gradients(kElements), copy(kElements);
  Check(optimizer->BindGradient(
      parameter, {.type = sluice::DType::kBF16, .bytes = std::as_bytes(std::span(gradients))}));
  Check(optimizer->BindCopy(parameter, {.bytes = std::as_writable_bytes(std::span(copy))}));
  Check(optimizer->RefreshCopies(groups[0]));  // copies for the first forward

  double scale = 1024;
  float loss = 0;
  int skipped = 0;
  for (int step = 0; step < kSteps; ++step) {
    Check(optimizer->SetRates(groups[0], {.learning_rate = step < 10 ? 0.01 * (step + 1) : 0.1}));
    Check(optimizer->Prefetch(groups, 4_MiB));  // states that the step updates first come now
    bool lost = step == kLostStep;
    for (int batch = 0; batch < kMicroBatches; ++batch) {
      if (batch == 2 && lost) {  // a worker has died: what was added up is forgotten
        Check(optimizer->ResetGradient(groups[0]));
        lost = false;
        batch = 0;
      }
      loss = Backward(copy, scale, gradients);
      if (step == kBadStep) gradients[0] = ToBf16(std::numeric_limits<float>::infinity());
      const bool last = batch + 1 == kMicroBatches;
      Check(last ? optimizer->GradientReady(groups[0]) : optimizer->AddGradient(groups[0]));
    }
    sluice::StepHandle started = Check(optimizer->Step({.loss_scale = scale}));
    const sluice::OptimizerStep done = Check(started.Wait());
    if (!done.skipped) continue;
    ++skipped;  // nothing has changed, and the sums are forgotten
    scale /= 2;
  }
  std::printf("loss %.4f after %jd steps; %d skipped, loss scale %.0f\n",
              static_cast<double>(loss),
              static_cast<std::intmax_t>(optimizer->step()),
              skipped,
              scale);
  return skipped == 1 && loss < 0.1f && optimizer->step() == kSteps - 1 ? 0 : 1;
}
