#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "io/page_store.h"

namespace sluice::io {

/// Slots that a drive which failed still holds, and why it counts as failed.
struct FencedDrive {
  std::string directory;
  std::vector<SlotIndex> slots;
  absl::Status cause;
};

struct DriveSetOptions {
  /// Of each drive; its `directory` is replaced, and its `slots` are those of all drives together,
  /// of which each gets an equal share.
  PageStoreOptions store;
  std::vector<std::string> directories;  ///< at least one
  /// Writes in a row that fail, or reads in a row that lose a page, after which a drive is fenced:
  /// it is written no more.
  int errors_to_fence = 3;
  /// Told of each fenced drive, on an internal thread; must not block, nor call the store.
  std::function<void(FencedDrive)> on_fenced;
};

/// A page store over several drives, each a page store with a file, a ring and an I/O thread of its
/// own. A slot's place is chosen anew at each write: drives are written in proportion to the rates
/// that they show, so that one that slows down gets less. A write that a drive refuses goes to the
/// next one; `done` hears an error only when all have refused it.
/// Threads, blocking, alignment: as PageStore. Errors: those of PageStore::Create, of any drive.
absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers);

/// The same over stores that exist already, in the order of the directories.
/// REQUIRES: stores[i] has SlotsOfDrive(options, i) slots.
std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers);

/// The slots of one drive: an equal share, rounded up.
SlotIndex SlotsOfDrive(const DriveSetOptions& options);

}  // namespace sluice::io
