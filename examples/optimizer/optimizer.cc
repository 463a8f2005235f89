// AdamW whose parameters and states are paged: 16 MiB of parameters and 32 MiB of states with
// 12 MiB of DRAM. The run is saved, and another optimizer goes on from the save.
#include "sluice/optimizer.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::int64_t kTensors = 4, kElements = 1 << 20;

/// A model of four tensors, and its optimizer.
class Model {
 public:
  Model() {
    sluice::RuntimeOptions options;
    options.page_bytes = 256_KiB;
    options.dram_bytes = 12_MiB;
    options.nvme_bytes = 64_MiB;
    runtime_ = Check(sluice::Runtime::Create(options));
    for (std::int64_t i = 0; i < kTensors; ++i) {
      parameters_.push_back(
          Check(runtime_->CreateTensor({.name = std::to_string(i) + ".weight",
                                        .shape = {kElements},
                                        .kind = sluice::TensorKind::kParameter})));
    }
    optimizer_ = Check(sluice::OffloadedOptimizer::Create(
        *runtime_, {.kind = sluice::OptimizerKind::kAdamW, .clip_norm = 1}));
    group_ = Check(optimizer_->AddGroup(
        {.name = "all", .parameters = parameters_, .rates = {.learning_rate = 0.01f}}));
    for (const sluice::TensorId parameter : parameters_) {
      Check(optimizer_->BindGradient(parameter, {.bytes = std::as_bytes(std::span(gradient_))}));
    }
  }

  void Step() {
    Check(optimizer_->GradientReady(group_));
    sluice::StepHandle step = Check(optimizer_->Step());  // returns at once
    // WaitFor(group) is enough before the group's next use.
    Check(step.Wait());
  }
  void Save(const std::string& directory) { Check(optimizer_->Save(directory)); }
  void Load(const std::string& directory) { Check(optimizer_->Load(directory)); }
  std::vector<float> Parameter(std::size_t index) {
    std::vector<float> values(kElements);
    Check(runtime_->Read(parameters_[index], std::as_writable_bytes(std::span(values))));
    return values;
  }

 private:
  const std::vector<float> gradient_ = std::vector<float>(kElements, 0.5f);
  std::unique_ptr<sluice::Runtime> runtime_;
  std::vector<sluice::TensorId> parameters_;
  std::unique_ptr<sluice::OffloadedOptimizer> optimizer_;
  sluice::GroupId group_;
};

}  // namespace

int main() {
  const auto directory = std::filesystem::temp_directory_path() / "sluice_optimizer_example";
  std::filesystem::create_directory(directory);
  Model first;
  for (int step = 0; step < 3; ++step) first.Step();
  first.Save(directory);
  first.Step();

  Model second;
  second.Load(directory);
  second.Step();
  std::filesystem::remove_all(directory);
  const bool same = first.Parameter(kTensors - 1) == second.Parameter(kTensors - 1);
  std::printf("after 4 steps parameter 0 is %.6f; the resumed run has %s bits\n",
              static_cast<double>(first.Parameter(0)[0]),
              same ? "the same" : "other");
  return same ? 0 : 1;
}
