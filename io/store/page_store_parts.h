#pragma once

#include <memory>
#include <string>

#include "base/timer.h"
#include "io/engine/io_engine.h"
#include "io/file/spill_files.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// Parts that a page store is put together from.
struct PageStoreParts {
  std::unique_ptr<IoEngine> engine;
  std::string engine_reason;
  std::string directory;  ///< directory for stats
  /// Files at least as long as the places together. Others that share them leave them alone while
  /// the store is in use. Null: the engine needs no file (memory).
  std::shared_ptr<const SpillFiles> files;
  /// Timer of pauses. Null: one with a thread of its own, which starts with the first error.
  std::unique_ptr<base::Timer> timer;
};

/// `slots` and the spare places beside them, which replace those that are retired: one for each 512
/// slots, and at least one.
SlotIndex WithSpares(SlotIndex slots);
/// The places of a store with these options.
SlotIndex PlacesOf(const PageStoreOptions& options);

/// Errors: InvalidArgument that names the option.
absl::Status CheckPageStoreOptions(const PageStoreOptions& options);

/// The engine that `options` ask for and the kernel grants, and why not io_uring if not. Errors:
/// FailedPrecondition (io_uring required, but refused or disabled).
absl::StatusOr<PageStoreParts> MakePageStoreParts(const PageStoreOptions& options);

/// Makes the parts over files that exist already.
absl::StatusOr<PageStoreParts> MakePageStoreParts(const PageStoreOptions& options,
                                                  std::shared_ptr<const SpillFiles> files);

/// Makes a store over any engine. Create calls it, and tests put faults under a store by it.
/// REQUIRES: CheckPageStoreOptions(options).ok().
std::unique_ptr<PageStore> AssemblePageStore(const PageStoreOptions& options,
                                             PageStoreParts parts,
                                             base::WorkerPool& workers);

}  // namespace sluice::io
