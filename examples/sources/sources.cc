// Where a tensor's first bytes come from: a file that is read in place, memory that the program
// gives up, many small values that share pages. And how they go: Discard, Free.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "examples/check.h"
#include "sluice/runtime.h"

namespace {

using namespace sluice::literals;
using sluice::TensorId, sluice::TensorSpec;

constexpr std::int64_t kElements = 4 << 20;

/// Whether every byte of the tensor is `value`.
bool IsAll(sluice::Runtime& runtime, TensorId tensor, char value) {
  std::vector<char> bytes(Check(runtime.SizeOfTensor(tensor)).count());
  Check(runtime.Read(tensor, std::as_writable_bytes(std::span(bytes))));
  return bytes == std::vector<char>(bytes.size(), value);
}

}  // namespace

int main() {
  const auto path = std::filesystem::temp_directory_path() / "sluice_sources_example";
  std::ofstream(path, std::ios::binary) << std::string(kElements, 'f');
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 2_MiB;
  options.nvme_bytes = 16_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));

  // Nothing is copied, and nothing is written to the file. No tier keeps room for the pages.
  const TensorId from_file =
      Check(runtime->CreateTensor({.name = "file",
                                   .shape = {kElements},
                                   .dtype = sluice::DType::kU8,
                                   .file = sluice::FileHome{.path = path, .read_only = true}}));
  bool right = IsAll(*runtime, from_file, 'f');

  // The bytes are copied, then the program's own copy goes. If a page is ever lost, `reproduce`
  // makes it again in place of an error.
  auto owned = std::make_unique<std::vector<char>>(kElements, 'm');
  const auto make_again = [](sluice::ByteRange, std::span<std::byte> out) {
    std::ranges::fill(out, std::byte{'m'});
    return absl::OkStatus();
  };
  const TensorSpec spec{
      .name = "memory", .shape = {kElements}, .dtype = sluice::DType::kU8, .reproduce = make_again};
  const TensorId adopted =
      Check(runtime->Adopt(spec, std::as_bytes(std::span(*owned)), [&owned] { owned.reset(); }));
  right = right && owned == nullptr && IsAll(*runtime, adopted, 'm');

  // Created together they share pages, in place of a page each.
  const std::vector<TensorSpec> small(100, {.name = "scale", .shape = {8}});
  const std::uint64_t before = runtime->GetStats().padding_bytes;
  const std::vector<TensorId> scales = Check(runtime->CreateTensors(small));
  const std::uint64_t padding = runtime->GetStats().padding_bytes - before;

  Check(runtime->Discard(adopted));  // dead content costs no write, and reads as zeros
  right = right && IsAll(*runtime, adopted, '\0');
  for (const TensorId scale : scales) Check(runtime->Free(scale));
  const absl::Status freed = runtime->NameOfTensor(scales[0]).status();

  std::filesystem::remove(path);
  std::printf("%s; %zu tensors with %ju KiB of padding\n",
              right ? "all bytes are right" : "wrong bytes",
              scales.size(),
              std::uintmax_t{padding >> 10});
  return right && absl::IsNotFound(freed) && padding < (64_KiB).count() ? 0 : 1;
}
