// Elementwise work frame by frame: no address range is mapped, and a thread per NUMA node works on
// the frames of its node.
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <thread>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::uint64_t kElements = 8 << 20, kPartBytes = 4 << 20;

/// Lets the calling thread run on these processors alone; an empty list leaves it as it is.
void StayOn(const std::vector<int>& processors) {
  if (processors.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

/// Adds one to each element in the frames of a node.
void AddOne(const sluice::Lease& lease, std::uint32_t node) {
  for (std::size_t i = 0; i < lease.Spans().size(); ++i) {
    if (lease.Nodes()[i] != node) continue;
    const std::span<std::byte> frame = lease.Spans()[i];
    auto* values = reinterpret_cast<float*>(frame.data());
    for (std::size_t j = 0; j < frame.size() / sizeof(float); ++j) values[j] += 1;
  }
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 40_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const std::vector<std::vector<int>> nodes = runtime->DramNodes();
  const sluice::TensorId tensor =
      Check(runtime->CreateTensor({.name = "values", .shape = {kElements}}));

  for (std::uint64_t offset = 0; offset < kElements * sizeof(float); offset += kPartBytes) {
    sluice::Op op = runtime->BeginOp({.name = "add one"});
    const sluice::Lease lease = Check(op.Acquire({.tensor = tensor,
                                                  .range = {offset, kPartBytes},
                                                  .mode = sluice::AccessMode::kReadWrite,
                                                  .tier = sluice::kDram0,
                                                  .contiguous = false}));
    std::vector<std::thread> threads;
    for (std::uint32_t node = 0; node < nodes.size(); ++node) {
      threads.emplace_back([&, node] {
        StayOn(nodes[node]);
        AddOne(lease, node);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<float> values(kElements);
  Check(runtime->Read(tensor, std::as_writable_bytes(std::span(values))));
  std::uint64_t wrong = 0;
  for (const float value : values) wrong += value != 1;
  std::printf("%zu nodes; %ju values are wrong\n", nodes.size(), std::uintmax_t{wrong});
  return wrong == 0 ? 0 : 1;
}
