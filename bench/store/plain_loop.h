#pragma once

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "bench/store/system/child_output.h"
#include "io/file/spill_files.h"

namespace sluice::bench {

/// Runs the load as a bare io_uring loop on one thread, from memory on huge pages. The loop has no
/// checksum, no retry, and no code of the page store. It is the ceiling if fio's buffers cannot lie
/// on huge pages. `interrupted`: asked after each page; empty: never. Errors: of io_uring_setup(2),
/// Internal (a request failed or was short), Cancelled.
absl::StatusOr<Sample> RunPlainLoop(const io::SpillFiles& files,
                                    const Load& load,
                                    const InterruptedFn& interrupted);

/// Checks that a ring can be made and used. Errors: FailedPrecondition (none can, and what to do).
absl::Status CheckIoUring();

/// Writes every byte once, so that no round meets an extent that was never written. Errors: those
/// of RunPlainLoop.
absl::Status WriteOnce(const io::SpillFiles& files,
                       std::uint64_t bytes,
                       const InterruptedFn& interrupted);

}  // namespace sluice::bench
