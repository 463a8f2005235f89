#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/file/file_scan.h"
#include "io/safetensors/weight_files.h"
#include "io/safetensors/weight_sums.h"

/// Checksums of a checkpoint's files, made and written.

namespace sluice::tools {

/// Reads files, several requests at a time, and hashes them. `progress`: called with the bytes read
/// so far. Errors: those of FileScanner::Scan and WeightFiles::CheckUnchanged.
absl::StatusOr<io::WeightSums> SumFiles(const io::WeightFiles& weights,
                                        io::FileScanner& scanner,
                                        absl::FunctionRef<void(std::uint64_t bytes)> progress);

/// Writes the checksums. Errors: those of SafetensorsFile.
absl::Status WriteSums(const std::string& path, const io::WeightSums& sums);

}  // namespace sluice::tools
