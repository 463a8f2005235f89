#pragma once

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "io/io_engine.h"

namespace sluice::bench {

/// The load as a bare io_uring loop on one thread makes it, from memory on huge pages: no checksum,
/// no retry, and no code shared with the page store. The ceiling where fio's buffers cannot lie on
/// huge pages. Errors: of io_uring_setup(2), Internal (a request failed or was short).
absl::StatusOr<Sample> RunPlainLoop(const io::IoFile& file, const Load& load);

/// Writes the whole file once, so that no round meets an extent that was never written.
absl::Status WriteOnce(const io::IoFile& file);

/// pread and pwrite on one thread through the page cache, which is emptied first; each page at most
/// once, so that no read meets it again. A write ends with fdatasync. `file_fd` may be of an
/// O_DIRECT file: it is opened anew. Errors: of the calls.
absl::StatusOr<Sample> RunBuffered(int file_fd, const Load& load);

}  // namespace sluice::bench
