#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/drives/drive_set.h"

namespace sluice::io {

absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers) {
  DriveSetOptions measured = options;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<PageStoreOptions> drives, MeasureDrives(&measured));
  std::vector<std::unique_ptr<PageStore>> stores;
  for (const PageStoreOptions& drive : drives) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PageStore> store, PageStore::Create(drive, workers));
    stores.push_back(std::move(store));
  }
  return AssembleDriveSet(measured, std::move(stores), workers);
}

}  // namespace sluice::io
