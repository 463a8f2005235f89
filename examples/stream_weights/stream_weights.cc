// Reads a checkpoint pass by pass, as inference does, under a budget that it does not fit into:
//
//   stream_weights PATH [require]   # a safetensors file, an index, or a directory with one
//
// The first pass is recorded. In the others pages come ahead of need, and the part that fits stays.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

/// Stands for the model's compute: the sum of all bytes. `leases`: that of the weight before, which
/// is handed over for this one's.
std::uint64_t Use(sluice::Runtime& runtime,
                  const sluice::Weight& weight,
                  std::vector<sluice::Lease>& leases) {
  sluice::Op op = runtime.BeginOp({.name = weight.name});
  leases = Check(op.AcquireAll({{.tensor = weight.tensor}}, std::move(leases)).Take());
  std::uint64_t sum = 0;
  for (const auto byte : leases.front().As<std::uint8_t>()) sum += byte;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "Usage: %s PATH [require]\n", argv[0]);
    return 2;
  }
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.hbm_bytes = 0_MiB;
  options.dram_bytes = 64_MiB;
  options.nvme_bytes = 0_MiB;  // weights are read from their files
  const auto runtime = Check(sluice::Runtime::Create(options));
  // Checksums that `sluice weights sum PATH` wrote verify each page, where they are there.
  const sluice::WeightOptions verified{.sums =
                                           argc == 3 ? sluice::Use::kRequire : sluice::Use::kAuto};
  const std::vector<sluice::Weight> weights = Check(runtime->OpenWeights(argv[1], verified));
  std::uint64_t bytes = 0, first_sum = 0;
  for (const sluice::Weight& weight : weights) bytes += weight.bytes.count();
  for (int pass = 1; pass <= 4; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t sum = 0;
    std::vector<sluice::Lease> leases;
    Check(runtime->BeginIteration("pass"));
    for (const sluice::Weight& weight : weights) {
      if (weight.tensor != sluice::TensorId()) sum += Use(*runtime, weight, leases);
    }
    leases.clear();
    Check(runtime->EndIteration());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("pass %d: %zu weights, %.3f GB/s\n",
                pass,
                weights.size(),
                static_cast<double>(bytes) / 1e9 / seconds.count());
    if (pass == 1) first_sum = sum;
    if (sum != first_sum) return 1;
  }
  return 0;
}
