#include "io/drives/drive_rates.h"

#include <algorithm>

#include "base/status.h"
#include "io/drives/disk_rates.h"

namespace sluice::io {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kFileBytesMin = 8 * kBlockBytes;
constexpr std::uint64_t kFileBytesMax = std::uint64_t{32} << 20;

/// No more than the drives are to hold together.
std::uint64_t FileBytes(const PageStoreOptions& store) {
  const std::uint64_t blocks = store.page_bytes * store.slots / kBlockBytes;
  return std::clamp(blocks * kBlockBytes, kFileBytesMin, kFileBytesMax);
}

absl::StatusOr<DiskRates> MeasureDrive(const PageStoreOptions& store,
                                       const OpenedDirectory& opened) {
  absl::StatusOr<DiskRates> rates = MeasureDiskRates({.opened = opened,
                                                      .file_bytes = FileBytes(store),
                                                      .keep_free_bytes = store.keep_free_bytes,
                                                      .block_bytes = kBlockBytes,
                                                      .queue_depth = 8,
                                                      .io_uring = store.io_uring,
                                                      .milliseconds = 45});
  if (!rates.ok()) return base::Annotate(rates.status(), "drive " + opened->path);
  return rates;
}

}  // namespace

absl::StatusOr<std::vector<double>> MeasureDriveRates(const PageStoreOptions& store,
                                                      const std::vector<OpenedDirectory>& opened) {
  std::vector<double> all;
  bool direct = true;
  for (const OpenedDirectory& directory : opened) {
    SLUICE_ASSIGN_OR_RETURN(const DiskRates rates, MeasureDrive(store, directory));
    all.push_back(std::max(rates.mixed, 1.0));
    direct = direct && rates.direct;
  }
  return direct ? all : std::vector<double>();
}

}  // namespace sluice::io
