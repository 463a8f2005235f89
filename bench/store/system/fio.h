#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "bench/store/system/child_output.h"

namespace sluice::bench {

/// One run of fio(1), with its buffers on huge pages.
struct FioJob {
  std::string program = "fio";
  std::string io_engine = "io_uring";
  /// Whether fio goes through the page cache, which it empties first. Each page comes at most once,
  /// so that no read meets it again. A write ends with fsync.
  bool buffered = false;
  /// Open files of equal size for fio: descriptors of this process. The files need no names.
  std::vector<int> file_fds;
  Load load;
};

/// Words of the job, the program first. The files are named by this process's /proc/PID/fd.
std::vector<std::string> FioCommand(const FioJob& job);

/// Reads what fio printed with --output-format=json, which may follow notes. Errors: Internal (no
/// JSON, a field is missing, the job failed, nothing was moved).
absl::StatusOr<Sample> ParseFio(std::string_view output);

/// Errors: those of ParseFio and RunChild, Internal (fio failed; the message has its last line).
absl::StatusOr<Sample> RunFio(const FioJob& job, const InterruptedFn& interrupted);

/// Whether there is an fio that runs. Errors: FailedPrecondition that names the package, Cancelled.
absl::Status CheckFio(const std::string& program, const InterruptedFn& interrupted);

}  // namespace sluice::bench
