#pragma once

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "io/spill_files.h"

namespace sluice::bench {

/// The load through the page store's own engine and Transfer, without slots and checksums: what the
/// store spends on I/O alone. Errors: those of the engine, Internal (a transfer failed).
absl::StatusOr<Sample> RunEngineLoop(const io::SpillFiles& files, const Load& load);

}  // namespace sluice::bench
