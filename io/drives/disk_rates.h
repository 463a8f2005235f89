#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "sluice/use.h"

namespace sluice::io {

struct SpillDirectory;

struct DiskRatesOptions {
  // Place of the temporary file, as in PageStoreOptions.
  std::string directory;
  std::shared_ptr<const SpillDirectory> opened;
  std::uint64_t file_bytes = std::uint64_t{256} << 20;
  std::uint64_t keep_free_bytes = 0;                   ///< see PageStoreOptions
  std::uint64_t block_bytes = std::uint64_t{1} << 20;  ///< a multiple of 4096, divides file_bytes
  std::uint32_t queue_depth = 8;
  /// Memory of buffers, one block for each request. A lower limit means fewer requests in flight (4
  /// at least), then smaller blocks (4 KiB at least).
  std::uint64_t memory_bytes_max = UINT64_MAX;
  Use io_uring = Use::kAuto;
  std::uint32_t milliseconds = 300;  ///< length of each of the three measurements
};

/// Depth and blocks within `memory_bytes_max`. Blocks that are halved still fill the file.
DiskRatesOptions WithinMemory(DiskRatesOptions options);

/// Bytes per second.
struct DiskRates {
  double read = 0;
  double write = 0;
  /// Reads and writes in turn, both counted.
  double mixed = 0;
  std::string engine;         ///< "io_uring" or "threads"
  std::string engine_reason;  ///< reason against io_uring; empty if it is used
  bool direct = false;        ///< false: the page cache was measured, not the disk
  std::string direct_reason;
};

/// Measures the disk under a directory with a plain loop over a temporary file that was written
/// once in full. O_DIRECT requests of one block each go in the order of the file, from memory on
/// huge pages, `queue_depth` at a time. The loop shares no code with the engines, so that it can be
/// held against them. Blocks for about three times `milliseconds` and one writing of the file.
/// Errors, besides those of PageStore::Create and base::StartThread:
/// - those of a request that fails for a reason that does not pass.
/// - Unavailable: nothing moved whole. Requests that are short, or fail for a reason that passes,
///   do not count.
absl::StatusOr<DiskRates> MeasureDiskRates(const DiskRatesOptions& options);

}  // namespace sluice::io
