#include "io/drives/drive_options.h"

#include <cstddef>

#include "base/check.h"
#include "base/status.h"
#include "io/drives/drive_shares.h"
#include "io/file/spill_directory.h"
#include "io/store/page_store_parts.h"

namespace sluice::io {

std::vector<PageStoreOptions> OptionsOfDrives(const DriveSetOptions& options) {
  SLUICE_CHECK(options.rates.empty() || options.rates.size() == options.directories.size(),
               "a drive set has a rate for every directory, or none");
  const std::vector<double> even(options.directories.size(), 1);
  const std::vector<SlotIndex> shares =
      DriveShares::DivideSlots(options.store.slots, options.rates.empty() ? even : options.rates);
  std::vector<PageStoreOptions> drives(shares.size(), options.store);
  for (std::size_t i = 0; i < drives.size(); ++i) {
    drives[i].directory = options.directories[i];
    drives[i].places = WithSpares(shares[i]);
    drives[i].marks_errors = true;
  }
  return drives;
}

absl::StatusOr<std::vector<PageStoreOptions>> MeasureDrives(DriveSetOptions* options) {
  SLUICE_RETURN_IF_ERROR(CheckPageStoreOptions(options->store));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<OpenedDirectory> opened,
                          OpenSpillDirectories(options->directories));
  for (std::size_t i = 0; i < opened.size(); ++i) options->directories[i] = opened[i]->path;
  if (options->rates.empty()) {
    SLUICE_ASSIGN_OR_RETURN(options->rates, DriveShares::MeasureRates(options->store, opened));
  }
  std::vector<PageStoreOptions> drives = OptionsOfDrives(*options);
  for (std::size_t i = 0; i < drives.size(); ++i) drives[i].opened = opened[i];
  return drives;
}

}  // namespace sluice::io
