// Parameters that stay in the program's own memory, as a framework has them: bf16 values in a
// vector. Only their fp32 masters and AdamW states are paged, 12 MiB each under 8 MiB of dram.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/freed_memory.h"
#include "sluice/optimizer.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::int64_t kElements = 3 << 20;
constexpr std::uint16_t kOne = 0x3F80, kHalf = 0x3F00;  // bf16

/// The program's parameter and gradient, and the optimizer that updates them.
struct Model {
  explicit Model(sluice::Runtime& runtime)
      : optimizer(Check(sluice::OffloadedOptimizer::Create(runtime, {}))) {
    parameter = Check(optimizer->BindParameter({.name = "weight",
                                                .type = sluice::DType::kBF16,
                                                .shape = {kElements},
                                                .bytes = std::as_writable_bytes(std::span(weights)),
                                                .master = true}));
    group = Check(optimizer->AddGroup({.name = "all", .parameters = {parameter}}));
    Check(optimizer->BindGradient(
        parameter, {.type = sluice::DType::kBF16, .bytes = std::as_bytes(std::span(gradients))}));
  }

  void Step() {
    Check(optimizer->GradientReady(group));
    Check(Check(optimizer->Step()).Wait());
  }

  std::vector<std::uint16_t> weights = std::vector<std::uint16_t>(kElements, kOne);
  std::vector<std::uint16_t> gradients = std::vector<std::uint16_t>(kElements, kHalf);
  std::unique_ptr<sluice::OffloadedOptimizer> optimizer;
  sluice::TensorId parameter;
  sluice::GroupId group;
};

/// Carries master, states and step count of a parameter from one optimizer to another.
void Carry(Model& from, Model& to) {
  std::vector<float> values(kElements);
  Check(from.optimizer->ReadMaster(from.parameter, values));
  Check(to.optimizer->WriteMaster(to.parameter, values));
  const sluice::ParameterState state = Check(from.optimizer->State(from.parameter));
  for (std::size_t i = 0; i < state.states.size(); ++i) {
    Check(from.optimizer->ReadState(from.parameter, i, values));
    Check(to.optimizer->WriteState(to.parameter, i, values));
  }
  Check(to.optimizer->SetStepsOf(to.parameter, state.step));
  to.weights = from.weights;
}

/// Binds memory and takes it back before it is in a group, as for a layer that is not trained.
bool Unbind(sluice::OffloadedOptimizer& optimizer) {
  std::vector<float> frozen(1024);
  const sluice::TensorId id = Check(optimizer.BindParameter(
      {.name = "frozen", .shape = {1024}, .bytes = std::as_writable_bytes(std::span(frozen))}));
  Check(optimizer.UnbindParameter(id));  // the memory may go
  return !optimizer.AddGroup({.name = "frozen", .parameters = {id}}).ok();
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 96_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  Model first(*runtime), second(*runtime);
  for (int step = 0; step < 3; ++step) first.Step();
  first.weights[0] = kHalf;  // the program writes a parameter: the master takes that value
  Check(first.optimizer->RefreshMaster(first.parameter));
  Carry(first, second);
  if (sluice::ReturnFreedMemory().was_short)
    std::puts("memory is short: what Carry freed went back");
  const bool unbound = Unbind(*first.optimizer);
  first.Step();
  second.Step();
  const bool same = first.weights == second.weights && first.weights[1] != kOne;
  std::printf("after 4 steps the carried parameter has %s bits\n", same ? "the same" : "other");
  return same && unbound ? 0 : 1;
}
