#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// A drive that has failed, and why it counts as failed.
struct FencedDrive {
  std::string directory;
  /// Slots with pages on this drive, writes in flight included: these stay there only where no
  /// other drive has room.
  std::vector<SlotIndex> slots;
  absl::Status cause;
};

struct DriveSetOptions {
  /// Options of each drive. Its `directory` is replaced; its `slots` are those of all drives
  /// together.
  PageStoreOptions store;
  std::vector<std::string> directories;  ///< at least one
  /// Rates of the drives, in bytes per second. A drive has slots in that proportion, but at least a
  /// tenth of an even share. Empty: CreateDriveSet measures it where there are several drives, and
  /// AssembleDriveSet divides evenly.
  std::vector<double> rates;
  /// Errors in a row after which a drive is fenced, and is written no more. Writes that fail count,
  /// and reads that lose a page or find the drive gone (each of another page than the one before).
  int errors_to_fence = 3;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Told of each fenced drive, on an internal thread; must not block, nor call the store.
  std::function<void(FencedDrive)> on_fenced;
};

/// A page store over one drive or several, each a page store with a file, a ring and an I/O thread
/// of its own. Each write chooses a slot's place anew. Drives are written in proportion to the
/// rates that they show, so a drive that slows down gets less. A write that a drive refuses goes to
/// the next one, as does a write that a drive takes after it was fenced. `done` hears an error only
/// when all have refused it. A write that is hastened stays so. A place that loses a page for good
/// is retired: never used again, as each drive has a few to spare. A drive that is alone is never
/// fenced.
///
/// Threads, blocking, alignment: as PageStore. Blocks: measuring takes about 0.2 s a drive. Errors:
/// those of PageStore::Create and MeasureDriveRates, of any drive, by name.
absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers);

/// The same over stores that exist already, in the order of the directories.
/// REQUIRES: stores[i] has SlotsOfDrives(options)[i] slots.
std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers);

/// The slots of each drive: its share and its spare ones.
std::vector<SlotIndex> SlotsOfDrives(const DriveSetOptions& options);

}  // namespace sluice::io
