#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/drives/drive_places.h"
#include "io/store/page_store.h"

namespace sluice::io {

struct DriveSetOptions {
  /// Options of each drive; its `directory` is replaced, and its `slots` are those of all drives
  /// together.
  PageStoreOptions store;
  std::vector<std::string> directories;  ///< two directories or more
  /// Rate of each drive, in bytes per second. A drive has places in proportion to it, but at least
  /// a tenth of an even share. Empty: CreateDriveSet measures the rates, and AssembleDriveSet
  /// divides evenly.
  std::vector<double> rates;
  int errors_to_fence = DrivePlacesOptions{}.errors_to_fence;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Listener, told of each fenced drive on an internal thread. It must not block, nor call the
  /// store.
  std::function<void(FencedDrive)> on_fenced;
};

/// Divides the places: the options of each drive's store. All have the slots of the set, and places
/// for the drive's share of the pages.
std::vector<PageStoreOptions> OptionsOfDrives(const DriveSetOptions& options);

/// Opens each directory, measures rates that are not given, and divides the places as
/// OptionsOfDrives. Sets paths and rates in `options`. Blocks for about 0.2 s a drive. Errors:
/// InvalidArgument (options), those of OpenSpillDirectories and DriveShares::MeasureRates.
absl::StatusOr<std::vector<PageStoreOptions>> MeasureDrives(DriveSetOptions* options);

}  // namespace sluice::io
