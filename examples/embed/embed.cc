// A tensor of 32 MiB under budgets of 4 MiB of device memory and 8 MiB of DRAM: most of it is on
// disk, and so is the state of the optimizer that updates it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "sluice/optimizer.h"
#include "sluice/runtime.h"

template <typename T>
T ValueOrDie(absl::StatusOr<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "embed: %s\n", result.status().ToString().c_str());
  std::exit(3);
}

/// One step of SGD that subtracts 1 from every element.
void SubtractOne(sluice::Runtime& runtime, sluice::TensorId weights, std::size_t count) {
  const std::vector<float> gradient(count, 1.0f);
  const auto optimizer = ValueOrDie(
      sluice::OffloadedOptimizer::Create(runtime, {.kind = sluice::OptimizerKind::kSgd}));
  const sluice::GroupId group = ValueOrDie(optimizer->AddGroup(
      {.name = "all", .parameters = {weights}, .rates = {.learning_rate = 1, .beta1 = 0}}));
  const auto check = [](const absl::Status& status) {
    if (!status.ok()) ValueOrDie(absl::StatusOr<int>(status));
  };
  check(optimizer->BindGradient(weights, {.bytes = std::as_bytes(std::span(gradient))}));
  check(optimizer->GradientReady(group));
  ValueOrDie(ValueOrDie(optimizer->Step()).Wait());
}

int main() {
  using namespace sluice::literals;
  constexpr std::uint64_t kRows = 32, kRowBytes = 1 << 20;
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.hbm_bytes = 4_MiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 96_MiB;
  const auto runtime = ValueOrDie(sluice::Runtime::Create(options));
  const sluice::TensorId weights =
      ValueOrDie(runtime->CreateTensor({.name = "weights", .shape = {32, 1 << 18}}));

  const auto lease_row = [&](std::uint64_t row, sluice::AccessMode mode) {
    const sluice::Access access{weights, {row * kRowBytes, kRowBytes}, mode};
    sluice::Op op = runtime->BeginOp({.name = "row"});
    return ValueOrDie(op.Acquire(access));
  };
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const sluice::Lease lease = lease_row(row, sluice::AccessMode::kOverwrite);
    std::ranges::fill(lease.As<float>(), static_cast<float>(row));
  }
  SubtractOne(*runtime, weights, kRows * kRowBytes / sizeof(float));
  std::uint64_t wrong = 0;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    const sluice::Lease lease = lease_row(row, sluice::AccessMode::kRead);
    for (const float value : lease.As<float>()) wrong += value != static_cast<float>(row) - 1;
  }
  const auto nvme = runtime->GetStats().links.at("dram-nvme");
  std::printf("%ju of %ju values are wrong; %ju bytes went to disk and %ju came back\n",
              std::uintmax_t{wrong},
              std::uintmax_t{kRows * kRowBytes / sizeof(float)},
              std::uintmax_t{nvme.out.bytes},
              std::uintmax_t{nvme.in.bytes});
  return wrong == 0 && nvme.in.bytes > 0 ? 0 : 1;
}
