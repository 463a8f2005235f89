#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/safetensors/weight_files.h"

/// Checksums of a checkpoint's files, block by block, so that a page of whole blocks can be
/// verified alone. They are kept as a safetensors file: a tensor of I64 for each file, named as it,
/// and the kind of checksum in __metadata__.

namespace sluice::io {

/// Bytes of a file that one checksum is of; the last block of a file may have fewer.
inline constexpr std::uint64_t kSumBlockBytes = std::uint64_t{64} << 10;

/// Key and value in __metadata__.
inline constexpr const char* kSumsKindKey = "sluice.sums";
inline constexpr const char* kSumsKind = "xxh3-64 of blocks of 65536 bytes";

/// XXH3-64 of each block of a file.
using BlockSums = std::vector<std::int64_t>;
/// Checksums of each file's blocks, by the file's name.
using WeightSums = std::map<std::string, BlockSums>;

/// Path of the checksums of a checkpoint: beside its index, or its one file.
std::string SumsPathOf(const WeightFiles& weights);

/// Appends the checksums of `bytes`. REQUIRES: they begin at a block.
void AppendSums(std::span<const std::byte> bytes, BlockSums* sums);
/// The first block of `bytes`, which begin at block `first` of the file, that differs from its
/// checksum; -1: none. REQUIRES: there is a checksum of each.
std::int64_t FirstDifference(std::span<const std::byte> bytes,
                             std::uint64_t first,
                             const BlockSums& sums);

/// Errors: those of SafetensorsReader::Open, InvalidArgument (another kind of file).
absl::StatusOr<WeightSums> ReadSums(const std::string& path);

}  // namespace sluice::io
