#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "io/drives/drive_places.h"
#include "io/store/page_store.h"

namespace sluice::io {

struct DriveSetOptions {
  /// Options of each drive; its `directory` is replaced, and its `slots` are those of all drives
  /// together.
  PageStoreOptions store;
  std::vector<std::string> directories;  ///< at least two
  /// What each drive gives, in bytes per second: it has places in that proportion, but at least a
  /// tenth of an even share. Empty: CreateDriveSet measures it, and AssembleDriveSet divides
  /// evenly.
  std::vector<double> rates;
  int errors_to_fence = DrivePlacesOptions{}.errors_to_fence;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Told of each fenced drive, on an internal thread; must not block, nor call the store.
  std::function<void(FencedDrive)> on_fenced;
};

/// A page store over several drives, each a page store with files, a ring and an I/O thread of its
/// own. A slot's drive is chosen anew at each write: drives are written in proportion to the rates
/// that they show, so that one that slows down gets less. A write that a drive refuses goes to the
/// next one, as does one that a drive takes after it was fenced; `done` hears an error only when
/// all have refused it. A write that is hastened stays so. The last drive that is left is never
/// fenced.
///
/// Threads, blocking, alignment: as PageStore. Blocks: measuring takes about 0.2 s a drive. Errors:
/// those of PageStore::Create and MeasureDiskRates, of any drive, by name.
absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers);

/// The same over stores that exist already, in the order of the directories.
/// REQUIRES: stores[i] is of OptionsOfDrives(options)[i].
std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers);

/// The options of each drive's store: all have the slots of the set, and places for the drive's
/// share of the pages.
std::vector<PageStoreOptions> OptionsOfDrives(const DriveSetOptions& options);

}  // namespace sluice::io
