// 32 MiB of tensors under budgets of 4 MiB of device memory and 8 MiB of DRAM: most of it lives on
// disk.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "sluice/runtime.h"

template <typename T>
T ValueOrDie(absl::StatusOr<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "embed: %s\n", result.status().ToString().c_str());
  std::exit(3);
}

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = sluice::Bytes(64 << 10);
  options.hbm_bytes = sluice::Bytes(4 << 20);
  options.dram_bytes = sluice::Bytes(8 << 20);
  options.nvme_bytes = sluice::Bytes(64 << 20);
  const auto runtime = ValueOrDie(sluice::Runtime::Create(options));

  std::vector<sluice::TensorId> layers;
  for (int i = 0; i < 32; ++i) {
    layers.push_back(ValueOrDie(
        runtime->CreateTensor({.name = "layer" + std::to_string(i), .shape = {256, 1024}})));
  }
  std::size_t wrong = 0;
  for (const auto mode : {sluice::AccessMode::kOverwrite, sluice::AccessMode::kRead}) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      sluice::Op op = runtime->BeginOp({.name = "touch" + std::to_string(i)});
      const std::vector<sluice::Access> accesses = {{.tensor = layers[i], .mode = mode}};
      const std::vector<sluice::Lease> leases = ValueOrDie(op.AcquireAll(accesses).Take());
      for (float& value : leases[0].As<float>()) {
        if (mode == sluice::AccessMode::kOverwrite) value = static_cast<float>(i);
        wrong += value != static_cast<float>(i);
      }
    }
  }
  const sluice::Stats stats = runtime->GetStats();
  std::printf("%zu wrong values; paged out %llu bytes, paged in %llu bytes\n",
              wrong,
              static_cast<unsigned long long>(stats.links.at("dram-nvme").out.bytes),
              static_cast<unsigned long long>(stats.links.at("dram-nvme").in.bytes));
  return wrong == 0 && stats.links.at("dram-nvme").in.bytes > 0 ? 0 : 1;
}
