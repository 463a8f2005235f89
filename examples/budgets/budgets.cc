// Memory lent and taken back while a program runs: SetBudget gives dram to the system for a while,
// Reserve takes frames out of paging for buffers of the program's own.
//
//   budgets [DRAM]   # for example: budgets 64MiB
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;

sluice::TierStats Dram(const sluice::Runtime& runtime) {
  return runtime.GetStats().tiers.at("dram");
}

void Print(const sluice::Runtime& runtime, const char* what) {
  const sluice::TierStats dram = Dram(runtime);
  std::printf("%-20s dram: budget %s, used %s\n",
              what,
              sluice::ToString(sluice::Bytes(dram.budget_bytes)).c_str(),
              sluice::ToString(sluice::Bytes(dram.used_bytes)).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const sluice::Bytes whole = Check(sluice::ParseBytes(argc == 2 ? argv[1] : "32MiB"));
  const sluice::Bytes quarter(whole.count() / 4);
  sluice::RuntimeOptions options;
  options.page_bytes = 256_KiB;
  options.dram_bytes = whole;
  options.nvme_bytes = whole * 2 + 16_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));
  std::vector<std::uint64_t> values(whole.count() / sizeof(std::uint64_t)), read(values.size());
  std::iota(values.begin(), values.end(), std::uint64_t{0});
  const auto elements = static_cast<std::int64_t>(values.size());
  const sluice::TensorId tensor = Check(
      runtime->CreateTensor({.name = "values", .shape = {elements}, .dtype = sluice::DType::kI64}));
  Check(runtime->Write(tensor, std::as_bytes(std::span(values))));
  Print(*runtime, "at the start");

  // The memory is the system's when the call returns: pages that lie there have left first.
  Check(runtime->SetBudget(sluice::kDram0, quarter));
  Print(*runtime, "a quarter");
  const bool shrunk = Dram(*runtime).used_bytes <= quarter.count();
  Check(runtime->Read(tensor, std::as_writable_bytes(std::span(read))));  // slower, and all there

  // The budget at creation is the most there can be. An error changes nothing.
  const absl::Status refused = runtime->SetBudget(sluice::kDram0, whole + 1_MiB);
  std::printf("refused: %s\n", refused.ToString().c_str());
  Check(runtime->SetBudget(sluice::kDram0, whole));
  Print(*runtime, "all of it again");

  sluice::Reservation staging = Check(runtime->Reserve(sluice::kDram0, quarter));
  for (const std::span<std::byte> frame : staging.Spans()) std::ranges::fill(frame, std::byte{1});
  Print(*runtime, "frames reserved");
  const std::size_t frames = staging.Spans().size();
  staging = {};  // the frames go back to paging
  std::printf(
      "%zu frames of %s were reserved\n", frames, sluice::ToString(runtime->PageBytes()).c_str());
  return read == values && shrunk && !refused.ok() && frames > 0 ? 0 : 1;
}
