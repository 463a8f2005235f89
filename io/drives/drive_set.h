#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "io/drives/drive_options.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// A page store over several drives, each a page store with files, a ring and an I/O thread of its
/// own.
/// - Each write chooses the slot's drive anew. Drives are written in proportion to the rates that
///   they show, so that a slow one gets less.
/// - A write that a drive refuses goes to the next one, as does a write that ends on a drive fenced
///   meanwhile. `done` hears an error only when all drives have refused it.
/// - A hastened write stays hastened.
/// - The last drive that is left is never fenced.
/// Threads, blocking, alignment: as PageStore. Blocks: measuring takes about 0.2 s a drive. Errors:
/// those of PageStore::Create and MeasureDiskRates, of any drive, by name.
absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers);

/// A page store over stores that exist already, in the order of the directories. REQUIRES:
/// stores[i] is of OptionsOfDrives(options)[i].
std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers);

}  // namespace sluice::io
