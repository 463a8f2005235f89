#include "runtime/engine/views/view_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/status.h"
#include "fmt/format.h"
#include "numa/huge_pages.h"

namespace sluice::engine {
namespace {

absl::Status MapOver(
    std::span<std::byte> at, int protection, int flags, int fd, std::uint64_t offset) {
  void* const result =
      mmap(at.data(), at.size(), protection, flags | MAP_FIXED, fd, static_cast<off_t>(offset));
  if (result == MAP_FAILED) {
    return base::StatusFromErrno(errno, "mmap at a tensor's addresses (see vm.max_map_count)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MapZeros(std::span<std::byte> at) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  SLUICE_RETURN_IF_ERROR(MapOver(at, PROT_READ, kFlags, -1, 0));
  return numa::KeepPrivateToProcess(at);
}

absl::Status MapFile(std::span<std::byte> at, int fd, std::uint64_t offset) {
  const auto system_page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (offset % system_page != 0) {
    return absl::InvalidArgumentError(
        fmt::format("byte {} of a file is no multiple of {}, so nothing is mapped from there",
                    offset,
                    system_page));
  }
  SLUICE_RETURN_IF_ERROR(MapOver(at, PROT_READ, MAP_SHARED, fd, offset));
  return numa::KeepPrivateToProcess(at);
}

absl::Status MapNothing(std::span<std::byte> at) {
  return MapOver(at, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

absl::Status Allow(std::span<std::byte> at, numa::MapAccess access) {
  const int protection = access == numa::MapAccess::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mprotect(at.data(), at.size(), protection) == 0) return absl::OkStatus();
  return base::StatusFromErrno(errno, "mprotect of a tensor's addresses (see vm.max_map_count)");
}

}  // namespace sluice::engine
