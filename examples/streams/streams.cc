// Work on a device in order: the program hands out a whole pass without waiting for any result.
// Each op's pages are in hbm when its work begins, and may leave as soon as its work has ended.
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

constexpr int kLayers = 16, kPasses = 3;
constexpr std::int64_t kElements = 1 << 18;  // 1 MiB each

/// Enqueues one op: adds one to each element of a layer.
void AddOne(sluice::Runtime& runtime, sluice::StreamRef& stream, sluice::TensorId layer) {
  sluice::Op op = runtime.BeginOp({.name = "add one"});
  sluice::Ticket ticket =
      op.AcquireAll({{.tensor = layer, .mode = sluice::AccessMode::kReadWrite}});
  Check(stream.WaitOn(ticket));  // work that is enqueued from here on finds the pages
  std::vector<sluice::Lease> leases = Check(ticket.Take());
  const std::span<float> values = leases[0].As<float>();
  stream.Enqueue([values] {  // launches of kernels, on a GPU
    for (float& value : values) value += 1;
  });
  Check(stream.ReleaseAfter(std::move(leases[0])));  // the pages stay until the work is done
  Check(op.EndAfter(stream));
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.hbm_bytes = 4_MiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 24_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  Check(runtime->SetEmulatedRates(4e9, 4e9));  // a link of 4 GB/s each way, where there is no GPU
  // A program with kernels of its own names its cudaStream_t: runtime->AdoptStream(stream).
  sluice::StreamRef stream = Check(runtime->CreateStream());
  std::vector<sluice::TensorId> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(
        Check(runtime->CreateTensor({.name = "layer " + std::to_string(i), .shape = {kElements}})));
  }

  for (int pass = 0; pass < kPasses; ++pass) {
    Check(runtime->BeginIteration("pass"));
    for (const sluice::TensorId layer : layers) AddOne(*runtime, stream, layer);
  }
  Check(runtime->EndIteration());
  stream.Synchronize();  // blocks until everything enqueued so far is done

  std::uint64_t wrong = 0;
  std::vector<float> values(kElements);
  for (const sluice::TensorId layer : layers) {
    Check(runtime->Read(layer, std::as_writable_bytes(std::span(values))));
    for (const float value : values) wrong += value != kPasses;
  }
  const sluice::LinkStats link = runtime->GetStats().links.at("hbm-dram");
  std::printf("%ju values are wrong; %ju MiB went to the device, %ju MiB came back\n",
              std::uintmax_t{wrong},
              std::uintmax_t{link.in.bytes >> 20},
              std::uintmax_t{link.out.bytes >> 20});
  return wrong == 0 ? 0 : 1;
}
