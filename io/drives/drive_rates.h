#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "io/file/spill_directory.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// Measures each drive by reads and writes in turn, one drive after another, with a file without a
/// name of at most 32 MiB. Returns bytes per second in the order of `opened`, the directories. The
/// result is empty where a drive refuses O_DIRECT: the page cache would be measured there. Blocks
/// for about 0.2 s a drive. Errors: those of MeasureDiskRates, each names the directory.
absl::StatusOr<std::vector<double>> MeasureDriveRates(const PageStoreOptions& store,
                                                      const std::vector<OpenedDirectory>& opened);

}  // namespace sluice::io
