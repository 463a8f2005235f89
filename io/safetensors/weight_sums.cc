#include "io/safetensors/weight_sums.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "io/store/xxh3.h"

namespace sluice::io {
namespace {

std::int64_t SumOfBlock(std::span<const std::byte> block) {
  return static_cast<std::int64_t>(Xxh3(block.data(), block.size(), 0));
}

/// The blocks of bytes that begin at one; `see` says whether to go on.
template <typename See>
void ForEachBlock(std::span<const std::byte> bytes, const See& see) {
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(bytes.size(), kSumBlockBytes);
    if (!see(bytes.first(size))) return;
    bytes = bytes.subspan(size);
  }
}

}  // namespace

std::string SumsPathOf(const WeightFiles& weights) { return weights.path() + ".sums"; }

void AppendSums(std::span<const std::byte> bytes, BlockSums* sums) {
  ForEachBlock(bytes, [sums](std::span<const std::byte> block) {
    sums->push_back(SumOfBlock(block));
    return true;
  });
}

std::int64_t FirstDifference(std::span<const std::byte> bytes,
                             std::uint64_t first,
                             const BlockSums& sums) {
  std::uint64_t block = first;
  std::int64_t found = -1;
  ForEachBlock(bytes, [&](std::span<const std::byte> of_block) {
    if (SumOfBlock(of_block) != sums[block]) found = static_cast<std::int64_t>(block);
    ++block;
    return found < 0;
  });
  return found;
}

absl::StatusOr<WeightSums> ReadSums(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const auto file, SafetensorsReader::Open(path));
  const auto kind = file->header().metadata.find(kSumsKindKey);
  if (kind == file->header().metadata.end() || kind->second != kSumsKind) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has no checksums that are known here; make them with `sluice weights sum`", path));
  }
  WeightSums sums;
  for (const SafetensorsEntry& entry : file->header().tensors) {
    if (entry.type->dtype != DType::kI64) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is {} and no I64", path, ShownName(entry.name), entry.type->name));
    }
    BlockSums& of_file = sums[entry.name];
    of_file.resize(entry.count());
    SLUICE_RETURN_IF_ERROR(file->Read(entry, 0, std::as_writable_bytes(std::span(of_file))));
  }
  return sums;
}

}  // namespace sluice::io
