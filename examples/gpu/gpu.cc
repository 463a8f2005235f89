// hbm on a GPU where there is one: pages come for the program's own stream, and its kernels find
// them at addresses of the GPU. Elsewhere host memory stands for hbm, and a fallback says why.
//
//   gpu [GPU]   # an ordinal, or a UUID or the beginning of one
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr int kLayers = 8;
constexpr std::int64_t kElements = 1 << 20;  // 4 MiB each

/// Stands for a launch on the program's stream: kernel<<<grid, block, 0, stream>>>(weights).
void Launch(std::span<std::byte> weights) { (void)weights; }

/// Whether a GPU holds hbm. Prints the reason if none does.
bool IsOnGpu(const sluice::Runtime& runtime) {
  for (const sluice::FallbackEvent& fallback : runtime.GetStats().fallbacks) {
    if (fallback.what != "cuda") continue;
    std::printf("%s in place of a GPU: %s\n", fallback.chosen.c_str(), fallback.reason.c_str());
    return false;
  }
  return true;
}

/// Enqueues the op of a layer. Returns whether the host may touch its memory.
bool Forward(sluice::Runtime& runtime, sluice::StreamRef& stream, sluice::TensorId layer) {
  sluice::Op op = runtime.BeginOp({.name = "forward"});
  sluice::Ticket ticket = op.AcquireAll({{.tensor = layer, .tier = sluice::kHbm0}});
  Check(stream.WaitOn(ticket));  // the pages are verified in dram, and their copies enqueued
  std::vector<sluice::Lease> leases = Check(ticket.Take());
  const bool host_accessible = leases[0].host_accessible();
  stream.Enqueue([bytes = leases[0].Contiguous()] { Launch(bytes); });
  Check(stream.ReleaseAfter(std::move(leases[0])));
  Check(op.EndAfter(stream));
  return host_accessible;
}

}  // namespace

int main(int argc, char** argv) {
  sluice::RuntimeOptions options;
  options.page_bytes = 2_MiB;  // the least that a GPU maps
  options.hbm_bytes = 16_MiB;
  options.dram_bytes = 32_MiB;
  options.nvme_bytes = 64_MiB;
  options.device = sluice::DeviceKind::kAuto;  // kCuda insists on a GPU
  options.emulated = {.in_bytes_per_second = 8e9, .out_bytes_per_second = 8e9};
  if (argc == 2) options.cuda.gpu = argv[1];
  const auto runtime = Check(sluice::Runtime::Create(options));
  const bool on_gpu = IsOnGpu(*runtime);
  // The default stream. A program with streams of its own names a cudaStream_t.
  absl::StatusOr<sluice::StreamRef> stream = runtime->AdoptStream(nullptr);
  bool right = on_gpu ? stream.ok() : absl::IsInvalidArgument(stream.status());
  if (!on_gpu) stream = runtime->CreateStream();
  Check(stream.status());

  const std::vector<float> ones(kElements, 1.0f);
  std::vector<sluice::TensorId> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(
        Check(runtime->CreateTensor({.name = "layer " + std::to_string(i), .shape = {kElements}})));
    Check(runtime->Write(layers.back(), std::as_bytes(std::span(ones))));
  }
  for (const sluice::TensorId layer : layers) {
    right = right && Forward(*runtime, *stream, layer) != on_gpu;
  }
  stream->Synchronize();

  sluice::Op op = runtime->BeginOp({.name = "copy out"});
  const sluice::Lease lease =
      Check(op.Acquire({.tensor = layers[0], .tier = sluice::kDram0, .contiguous = false}));
  const std::uint64_t moved = runtime->GetStats().links.at("hbm-dram").in.bytes;
  std::printf("%ju MiB went to hbm; a framework copies from frames of dram %s\n",
              std::uintmax_t{moved >> 20},
              lease.pinned() ? "at the speed of the link" : "through pageable memory");
  return right && moved >= kLayers * kElements * sizeof(float) ? 0 : 1;
}
