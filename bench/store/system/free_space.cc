#include "bench/store/system/free_space.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "numa/memory_limits.h"
#include "numa/memory_sum.h"
#include "sluice/units.h"

namespace sluice::bench {

absl::Status CheckFreeSpace(const io::SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::string_view what) {
  struct statvfs info {};
  if (fstatvfs(directory.fd.get(), &info) != 0) {
    return base::StatusFromErrno(errno, "statvfs " + directory.path);
  }
  const std::uint64_t total = std::uint64_t{info.f_blocks} * info.f_frsize;
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  const std::uint64_t floor =
      std::min(std::max(std::uint64_t{1} << 30, total / 20), std::uint64_t{16} << 30);
  const std::uint64_t wanted = bytes + floor;
  if (free >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(fmt::format(
      "{} has {} free, {} are needed: {} of {}, and {} that stay free; make room or name "
      "another directory",
      directory.path,
      ToString(Bytes(free)),
      ToString(Bytes(wanted)),
      what,
      ToString(Bytes(bytes)),
      ToString(Bytes(floor)))));
}

absl::Status CheckFreeMemory(std::uint64_t bytes, std::string_view what, std::string_view fix) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  numa::MemorySum sum;
  sum.Add({std::string(what), bytes});
  return numa::CheckFits(sum, limits, "a case", fix);
}

}  // namespace sluice::bench
