// Two ranks of one machine: each has half of the parameters, its share of the budgets, and the
// norm of all gradients. The parameters get the bits of one optimizer that has them all.
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

constexpr std::uint32_t kTensors = 4, kRanks = 2;
constexpr std::int64_t kElements = 1 << 18;
constexpr int kSteps = 3;

/// The parameters of one rank, and their optimizer. Real ranks are processes.
class Rank {
 public:
  Rank(std::uint32_t index, std::uint32_t count) {
    sluice::RuntimeOptions options;
    options.page_bytes = 256_KiB;
    options.dram_bytes = 6_MiB;
    options.nvme_bytes = 24_MiB;
    options.share = {.index = index, .count = count};  // dram and nvme are divided
    runtime_ = Check(sluice::Runtime::Create(options));
    for (std::uint32_t i = 0; i < kTensors / count; ++i) {
      parameters_.push_back(
          Check(runtime_->CreateTensor({.name = std::to_string(i), .shape = {kElements}})));
    }
    optimizer_ =
        Check(sluice::OffloadedOptimizer::Create(*runtime_, {.clip_norm = 1, .norm_given = true}));
    group_ = Check(optimizer_->AddGroup({.name = "own", .parameters = parameters_}));
    for (const sluice::TensorId parameter : parameters_) {
      Check(optimizer_->BindGradient(parameter, {.bytes = std::as_bytes(std::span(gradient_))}));
    }
  }

  /// The sum of the squares of this rank's gradients.
  double SquareSum() const {
    double sum = 0;
    for (const float value : gradient_) sum += double{value} * double{value};
    return sum * static_cast<double>(parameters_.size());
  }
  void Step(double norm) {
    Check(optimizer_->GradientReady(group_));
    sluice::StepHandle step = Check(optimizer_->Step({.gradient_norm = norm}));
    Check(step.Wait());
  }
  std::vector<float> Parameter() {
    std::vector<float> values(kElements);
    Check(runtime_->Read(parameters_[0], std::as_writable_bytes(std::span(values))));
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
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t i = 0; i < kRanks; ++i) ranks.push_back(std::make_unique<Rank>(i, kRanks));
  Rank alone(0, 1);
  double norm = 0;
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0;  // sum over all ranks: an all-reduce
    for (const auto& rank : ranks) sum += rank->SquareSum();
    norm = std::sqrt(sum);
    for (const auto& rank : ranks) rank->Step(norm);
    alone.Step(std::sqrt(alone.SquareSum()));
  }
  const bool same = ranks[1]->Parameter() == alone.Parameter();
  std::printf("the norm of %u ranks is %.0f; parameters have %s bits\n",
              kRanks,
              norm,
              same ? "the same" : "other");
  return same && norm == 512 ? 0 : 1;
}
