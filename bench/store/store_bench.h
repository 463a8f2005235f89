#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "bench/store/row.h"
#include "bench/store/system/child_output.h"

namespace sluice::bench {

struct StoreBenchOptions {
  /// Directory on the disk to measure, as in io::PageStoreOptions, but never empty.
  std::string directory;
  std::uint64_t file_bytes = std::uint64_t{2}
                             << 30;   ///< size of the shared files, a multiple of 8 MiB
  int rounds = 11;                    ///< rounds of each judged case
  std::uint32_t milliseconds = 1000;  ///< length of each run
  std::string pattern;                ///< pattern of the rows (MatchesPattern); empty: all
  std::string fio = "fio";
  std::string huge_pages_path = "/proc/sys/vm/nr_hugepages";

  InterruptedFn interrupted;
  std::function<void(const std::string&)> progress;
  /// Function that is told of each fallback and its reason, once.
  std::function<void(const std::string&)> warn;
};

/// Measures the page store against fio and against peers. Calls `add_row` for each row as it comes.
/// Leaves nothing behind in the directory (files have no names) or in the system.
/// Threads: the calling one calls back. Errors:
/// - before the first measurement: InvalidArgument, NotFound, PermissionDenied, ResourceExhausted
///   (space), FailedPrecondition (no fio; io_uring or O_DIRECT refused)
/// - Cancelled (interrupted)
/// - Internal and others: a read or write of either side failed.
absl::Status RunStoreBench(const StoreBenchOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
