// Pointers for code that knows nothing of leases: a tensor's bytes can be read at one address for
// as long as it lives, wherever its pages are. Only changes need a lease.
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

constexpr std::int64_t kElements = 4 << 20;  // 16 MiB under 4 MiB of dram

/// Stands for a library that takes a pointer.
double Sum(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

}  // namespace

int main() {
  Check(sluice::NameStrayTouches());  // a write through such a pointer names the tensor as it dies
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 4_MiB;
  options.nvme_bytes = 24_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  const sluice::TensorId table = Check(runtime->CreateTensor(
      {.name = "table", .shape = {kElements}, .off_lease = sluice::OffLease::kReadable}));
  const std::span<const std::byte> view = Check(runtime->AddressOf(table));
  const auto* values = reinterpret_cast<const float*>(view.data());
  const double empty = Sum(values, kElements);  // zeros, as nothing was written

  const std::vector<float> ones(kElements, 1.0f);
  Check(runtime->Write(table, std::as_bytes(std::span(ones))));
  const double written = Sum(values, kElements);  // most pages are read from the spill file

  {
    sluice::Op op = runtime->BeginOp({.name = "update"});
    const sluice::Lease lease = Check(op.Acquire(
        {.tensor = table, .range = {0, (64_KiB).count()}, .mode = sluice::AccessMode::kReadWrite}));
    lease.As<float>()[0] = 3;
  }
  const double updated = Sum(values, kElements);
  std::printf("sums through the pointer: %.0f, %.0f, %.0f\n", empty, written, updated);
  const auto count = static_cast<double>(kElements);
  return empty == 0 && written == count && updated == count + 2 ? 0 : 1;
}
