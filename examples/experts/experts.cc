// Groups that sit steps out: eight experts, of which each step trains two. The states of the others
// stay where they are, and an expert is waited for just before its next use.
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::uint32_t kExperts = 8, kSteps = 12;
constexpr std::int64_t kElements = 1 << 19;  // 2 MiB, and 4 MiB of states

struct Expert {
  sluice::TensorId weights;
  sluice::GroupId group;
  std::int64_t steps = 0;
};

/// The experts that a step trains; a router of a model would say.
std::array<std::uint32_t, 2> Chosen(std::uint32_t step) {
  return {step % kExperts, (3 * step + 1) % kExperts};
}

/// Stands for forward and backward: the gradient of (w - 1)^2 / 2.
void Backward(sluice::Runtime& runtime, const Expert& expert, std::span<float> gradient) {
  sluice::Op op = runtime.BeginOp({.name = "expert"});
  const sluice::Lease lease = Check(op.Acquire({.tensor = expert.weights}));
  const std::span<float> weights = lease.As<float>();
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = weights[i] - 1;
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 12_MiB;
  options.nvme_bytes = 64_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const auto optimizer = Check(sluice::OffloadedOptimizer::Create(*runtime, {}));
  std::vector<std::vector<float>> gradients(kExperts, std::vector<float>(kElements));
  std::vector<Expert> experts(kExperts);
  for (std::uint32_t i = 0; i < kExperts; ++i) {
    const std::string name = "expert " + std::to_string(i);
    const sluice::TensorId weights =
        Check(runtime->CreateTensor({.name = name, .shape = {kElements}}));
    experts[i] = {.weights = weights,
                  .group = Check(optimizer->AddGroup({.name = name, .parameters = {weights}}))};
    Check(optimizer->BindGradient(weights, {.bytes = std::as_bytes(std::span(gradients[i]))}));
  }

  sluice::StepHandle step;
  for (std::uint32_t number = 0; number < kSteps; ++number) {
    for (const std::uint32_t i : Chosen(number)) {
      if (number > 0) Check(step.WaitFor(experts[i].group));  // the other may still be updated
      Backward(*runtime, experts[i], gradients[i]);
      ++experts[i].steps;
    }
    if (number > 0) Check(step.Wait());  // one step at a time
    for (const std::uint32_t i : Chosen(number)) {
      Check(optimizer->GradientReady(experts[i].group));
    }
    step = Check(optimizer->Step({.only_ready = true}));
  }
  const sluice::OptimizerStep last = Check(step.Wait());

  bool right = last.groups == 2;
  for (const Expert& expert : experts) {
    const sluice::ParameterState state = Check(optimizer->State(expert.weights));
    std::printf("%jd ", static_cast<std::intmax_t>(state.step));
    right = right && state.step == expert.steps;
  }
  std::printf("steps of the experts; %s\n", right ? "as chosen" : "not as chosen");
  return right ? 0 : 1;
}
