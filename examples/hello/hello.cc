// A tensor of 32 MiB under budgets of 4 MiB of device memory and 8 MiB of DRAM: most of it is on
// disk, and every byte of it can be leased, written and read.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

int main() {
  using namespace sluice::literals;
  constexpr std::uint64_t kRows = 32, kColumns = 1 << 18, kRowBytes = kColumns * sizeof(float);
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.hbm_bytes = 4_MiB;
  options.dram_bytes = 8_MiB;
  options.nvme_bytes = 48_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId weights =
      Check(runtime->CreateTensor({.name = "weights", .shape = {kRows, kColumns}}));

  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  Check(runtime->Write(weights, std::as_bytes(std::span(values))));

  for (std::uint64_t row = 0; row < kRows; ++row) {
    sluice::Op op = runtime->BeginOp({.name = "add one"});
    const sluice::Lease lease = Check(op.Acquire({.tensor = weights,
                                                  .range = {row * kRowBytes, kRowBytes},
                                                  .mode = sluice::AccessMode::kReadWrite}));
    for (float& value : lease.As<float>()) value += 1;
  }  // the lease and the op end here

  std::vector<float> read(values.size());
  Check(runtime->Read(weights, std::as_writable_bytes(std::span(read))));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < read.size(); ++i) wrong += read[i] != values[i] + 1;
  const auto nvme = runtime->GetStats().links.at("dram-nvme");
  std::printf("%ju of %ju values are wrong; %ju MiB went to disk, %ju MiB came back\n",
              std::uintmax_t{wrong},
              std::uintmax_t{read.size()},
              std::uintmax_t{nvme.out.bytes >> 20},
              std::uintmax_t{nvme.in.bytes >> 20});
  return wrong == 0 && nvme.in.bytes > 0 ? 0 : 1;
}
