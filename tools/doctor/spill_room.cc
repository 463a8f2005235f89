#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/drives/drive_options.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"
#include "io/file/spill_files.h"
#include "io/store/page_store_parts.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

std::vector<std::string> DirectoriesOf(const std::string& first, const RuntimeOptions& options) {
  std::vector<std::string> all = options.io.more_directories;
  all.insert(all.begin(), first);
  return all;
}

/// Status that says why a directory has no room for `bytes`. Files may be larger than it if space
/// is not reserved.
absl::Status CheckRoom(const io::SpillDirectory& directory,
                       const IoOptions& options,
                       std::uint64_t bytes) {
  const std::uint64_t keep_free = options.keep_free.count();
  if (keep_free > 0) return io::CheckKeepsFree(directory, bytes, keep_free);
  struct statvfs info {};
  if (fstatvfs(directory.fd.get(), &info) != 0) {
    return base::StatusFromErrno(errno, directory.path + ": fstatvfs");
  }
  const std::uint64_t free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (options.reserved_space == Use::kOff || bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(
      fmt::format("spill directory {}: cannot reserve {}: {} are free; make room there, use a "
                  "directory elsewhere, or lower tiers.nvme.bytes",
                  directory.path,
                  ToString(Bytes(bytes)),
                  ToString(Bytes(free_bytes)))));
}

/// Options of each store of a Runtime, as it would divide the bytes now.
absl::StatusOr<std::vector<io::PageStoreOptions>> StoresOf(const std::string& first,
                                                           const RuntimeOptions& options,
                                                           io::SlotIndex slots) {
  io::PageStoreOptions store;
  store.page_bytes = options.page_bytes.count();
  store.slots = slots;
  store.keep_free_bytes = options.io.keep_free.count();
  store.io_uring = options.io.io_uring;
  if (!options.io.more_directories.empty()) {
    io::DriveSetOptions set{
        .store = store, .directories = DirectoriesOf(first, options), .rates = {}};
    return io::MeasureDrives(&set);
  }
  SLUICE_RETURN_IF_ERROR(io::CheckPageStoreOptions(store));
  SLUICE_ASSIGN_OR_RETURN(std::vector<io::OpenedDirectory> opened,
                          io::OpenSpillDirectories({first}));
  store.opened = std::move(opened.front());
  store.places = io::WithSpares(store.slots);
  return std::vector<io::PageStoreOptions>{store};
}

}  // namespace

absl::Status CheckDirectories(const std::string& first, const RuntimeOptions& options) {
  for (const std::string& directory : options.io.more_directories) {
    SLUICE_RETURN_IF_ERROR(ReadSpill(directory, options).status);
  }
  SLUICE_RETURN_IF_ERROR(io::OpenSpillDirectories(DirectoriesOf(first, options)).status());
  if (options.nvme_bytes.count() == 0) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const engine::FrameCounts frames, engine::CountFrames(options));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<io::PageStoreOptions> stores,
                          StoresOf(first, options, frames.nvme));
  std::map<dev_t, std::uint64_t> taken;  // bytes taken from each file system
  for (const io::PageStoreOptions& store : stores) {
    struct stat info {};
    if (fstat(store.opened->fd.get(), &info) != 0) {
      return base::StatusFromErrno(errno, store.opened->path + ": fstat");
    }
    std::uint64_t& bytes = taken[info.st_dev];
    const std::uint64_t own = io::PlacesOf(store) * store.page_bytes;
    SLUICE_RETURN_IF_ERROR(io::CheckFileSizeLimit(
        *store.opened, io::LargestFileBytes({.bytes = own, .unit_bytes = store.page_bytes})));
    bytes += own;
    SLUICE_RETURN_IF_ERROR(CheckRoom(*store.opened, options.io, bytes));
  }
  return absl::OkStatus();
}

}  // namespace sluice::tools
