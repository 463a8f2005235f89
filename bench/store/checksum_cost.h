#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/store/child_output.h"
#include "bench/store/row.h"

namespace sluice::bench {

/// Adds up all 64-bit words: a pass that does nothing but read.
struct ReadPass {
  const char* name;
  std::uint64_t (*sum)(std::span<const std::byte> data);
};

/// Those that this processor has: AVX2 and AVX-512 with four accumulators, else SSE2. REQUIRES of
/// their argument: aligned to 64 bytes, a multiple of 256.
std::vector<ReadPass> ReadPasses();

/// The names of all rows of MeasureChecksumCost.
std::vector<std::string> ChecksumRowNames();

struct ChecksumCostOptions {
  /// Far more than the caches hold.
  std::uint64_t working_set_bytes = std::uint64_t{512} << 20;
  int reps = 5;
  std::string pattern;  ///< which rows, as MatchesPattern
  InterruptedFn interrupted;
};

/// Rows "checksum/SIZE": the time of io::PageChecksum over that of the fastest read pass, both over
/// the same pages in turn, which no cache holds. Rows "checksum-crc32c/SIZE", where the processor
/// has it: that of Crc32c in its place. Errors: ResourceExhausted (memory), Cancelled.
absl::Status MeasureChecksumCost(const ChecksumCostOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
