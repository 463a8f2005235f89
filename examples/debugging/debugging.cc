// Aids against mistakes of the program: NaN where it reads what it should have written, a fault
// where it uses a page that has left, an error where an op would wait for the one around it, a
// count of ops that the schedule did not foretell.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;
using sluice::AccessMode, sluice::TensorId;

constexpr std::int64_t kElements = 1 << 14;  // one page

/// Whether the address can be read; a plain read of one that cannot is a SIGSEGV.
bool IsReadable(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

/// Overwrites a tensor, all but its last value.
void ForgetOne(sluice::Runtime& runtime, TensorId tensor) {
  sluice::Op op = runtime.BeginOp({.name = "overwrite"});
  const sluice::Lease lease = Check(op.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite}));
  for (float& value : lease.As<float>().first(kElements - 1)) value = 1;
}

/// An address that outlives its lease, as a mistake would keep it.
const void* Address(sluice::Runtime& runtime, TensorId tensor) {
  sluice::Op op = runtime.BeginOp({.name = "read"});
  return Check(op.Acquire({.tensor = tensor})).Contiguous().data();
}

/// Whether an op that asks for what the op around it holds is told, in place of a wait without end.
bool IsToldOfDeadlock(sluice::Runtime& runtime, TensorId tensor) {
  sluice::Op outer = runtime.BeginOp({.name = "outer", .nested = true});
  const sluice::Lease held = Check(outer.Acquire({.tensor = tensor}));
  sluice::Op inner = runtime.BeginOp({.name = "inner", .nested = true});
  const auto refused = inner.Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite});
  return absl::IsAborted(refused.status());
}

/// Runs an iteration that reads the tensors in this order.
void Iterate(sluice::Runtime& runtime, const std::vector<TensorId>& tensors) {
  Check(runtime.BeginIteration("step"));
  for (const TensorId tensor : tensors) {
    sluice::Op op = runtime.BeginOp({.name = "read"});
    Check(op.Acquire({.tensor = tensor}));
  }
  Check(runtime.EndIteration());
}

}  // namespace

int main() {
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 1_MiB;
  options.nvme_bytes = 8_MiB;
  options.fill_overwrite_with_nan = true;
  options.memory.keep_mappings = false;  // the default in debug builds of the library
  const auto runtime = Check(sluice::Runtime::Create(options));
  const TensorId first = Check(runtime->CreateTensor({.name = "first", .shape = {kElements}}));
  const TensorId second = Check(runtime->CreateTensor({.name = "second", .shape = {kElements}}));
  const TensorId large = Check(runtime->CreateTensor({.name = "large", .shape = {1 << 20}}));

  ForgetOne(*runtime, first);
  float forgotten = 0;
  Check(runtime->Read(
      first, std::as_writable_bytes(std::span(&forgotten, 1)), (kElements - 1) * sizeof(float)));

  const void* address = Address(*runtime, first);
  const bool before = IsReadable(address);
  Check(runtime->Write(large, std::vector<std::byte>(4 << 20)));  // takes all frames
  Address(*runtime, second);  // one more mapping: those before it have been made, too
  const bool after = IsReadable(address);

  const bool told = IsToldOfDeadlock(*runtime, first);
  for (int step = 0; step < 2; ++step) Iterate(*runtime, {first, second});
  Iterate(*runtime, {second, first});  // not as recorded: counted, and harmless
  const std::uint64_t divergences = runtime->GetStats().schedule_divergences;
  std::printf("the forgotten value is %f; its page is %s after the eviction; %ju divergences\n",
              static_cast<double>(forgotten),
              after ? "readable" : "unmapped",
              std::uintmax_t{divergences});
  return std::isnan(forgotten) && before && !after && told && divergences > 0 ? 0 : 1;
}
