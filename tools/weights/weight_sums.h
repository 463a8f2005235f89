#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file/file_scan.h"
#include "io/safetensors/weight_files.h"

/// Checksums of a checkpoint's files, block by block, so that a page of at least a block can be
/// verified alone. They are kept as a safetensors file: a tensor of I64 for each file, named as it,
/// and the kind of checksum in __metadata__.

namespace sluice::tools {

/// Bytes of a file that one checksum is of; the last block of a file may have fewer.
inline constexpr std::uint64_t kSumBlockBytes = std::uint64_t{64} << 10;

/// XXH3-64 of each block of each file, by the file's name.
using WeightSums = std::map<std::string, std::vector<std::int64_t>>;

/// Where the checksums of a checkpoint are: beside its index, or its one file.
std::string SumsPathOf(const io::WeightFiles& weights);

/// Reads files, several requests at a time, and hashes them. `progress`: bytes that were read by
/// now. Errors: those of FileScanner::Scan and WeightFiles::CheckUnchanged.
absl::StatusOr<WeightSums> SumFiles(const io::WeightFiles& weights,
                                    io::FileScanner& scanner,
                                    absl::FunctionRef<void(std::uint64_t bytes)> progress);

/// Errors: those of SafetensorsFile.
absl::Status WriteSums(const std::string& path, const WeightSums& sums);
/// Errors: those of SafetensorsReader::Open, InvalidArgument (another kind of file).
absl::StatusOr<WeightSums> ReadSums(const std::string& path);

}  // namespace sluice::tools
