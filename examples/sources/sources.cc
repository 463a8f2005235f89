// Sources of a tensor's first bytes: a file that is read in place, parts of files joined, memory
// that the program gives up, many small values that share pages. Ends of a tensor's bytes: Discard,
// Free.
#define XXH_INLINE_ALL
#include <xxhash.h>

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

/// A tensor of a file that is only read.
TensorSpec FromFile(const std::string& path, std::uint64_t offset) {
  return {.name = "file",
          .shape = {kElements},
          .dtype = sluice::DType::kU8,
          .file = sluice::FileHome{.path = path, .offset = offset, .read_only = true}};
}

/// Whether a tensor of both parts of the file, the second one first, has their bytes.
bool JoinsParts(sluice::Runtime& runtime, const std::string& path) {
  const std::vector<TensorSpec> specs = {FromFile(path, 0), FromFile(path, kElements)};
  const std::vector<TensorId> parts = Check(runtime.CreateTensors(specs));
  const TensorId joined = Check(runtime.CreateTensor({.name = "joined",
                                                      .shape = {2 * kElements},
                                                      .dtype = sluice::DType::kU8,
                                                      .joined = {parts[1], parts[0]}}));
  for (const TensorId part : parts) Check(runtime.Free(part));
  std::string bytes(2 * kElements, '\0');
  Check(runtime.Read(joined, std::as_writable_bytes(std::span(bytes))));
  return bytes == std::string(kElements, 'g') + std::string(kElements, 'f');
}

/// Whether pages of a file are verified by checksums that the program has of it.
bool VerifiesFile(sluice::Runtime& runtime, const std::string& path, const std::string& content) {
  constexpr std::size_t kBlock = 64 << 10;
  std::vector<std::int64_t> sums;
  for (std::size_t i = 0; i < content.size(); i += kBlock) {
    const std::size_t size = std::min(kBlock, content.size() - i);
    sums.push_back(static_cast<std::int64_t>(XXH3_64bits(content.data() + i, size)));
  }
  TensorSpec spec = FromFile(path, 0);
  spec.file->block_sums = std::make_shared<const std::vector<std::int64_t>>(sums);
  const bool whole = IsAll(runtime, Check(runtime.CreateTensor(spec)), 'f');
  // A sum that does not fit stands for damage in the first block.
  ++sums[0];
  spec.file->block_sums = std::make_shared<const std::vector<std::int64_t>>(sums);
  std::byte first;
  const TensorId damaged = Check(runtime.CreateTensor(spec));
  const absl::Status lost = runtime.Read(damaged, std::span(&first, 1));
  std::printf("damaged: %s\n", lost.ToString().c_str());
  return whole && absl::IsDataLoss(lost);
}

/// Whether a tensor that never goes to disk takes capacity of dram.
bool StaysInDram(sluice::Runtime& runtime) {
  const TensorSpec spec{.name = "norms", .shape = {1 << 16}, .lowest = sluice::TierKind::kDram};
  const std::uint64_t before = runtime.GetStats().tiers.at("dram").committed_bytes;
  Check(runtime.CreateTensor(spec));
  const std::uint64_t committed = runtime.GetStats().tiers.at("dram").committed_bytes - before;
  return committed == SizeOf(spec).count();
}

}  // namespace

int main() {
  const auto path = std::filesystem::temp_directory_path() / "sluice_sources_example";
  const std::string content = std::string(kElements, 'f') + std::string(kElements, 'g');
  std::ofstream(path, std::ios::binary) << content;
  sluice::RuntimeOptions options;
  options.page_bytes = 64_KiB;
  options.dram_bytes = 2_MiB;
  options.nvme_bytes = 16_MiB;
  const auto runtime = Check(sluice::Runtime::Create(options));

  // Nothing is copied, and nothing is written to the file. No tier keeps room for the pages.
  const TensorId from_file = Check(runtime->CreateTensor(FromFile(path, 0)));
  bool right = IsAll(*runtime, from_file, 'f') && JoinsParts(*runtime, path) &&
               VerifiesFile(*runtime, path, content) && StaysInDram(*runtime);

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
