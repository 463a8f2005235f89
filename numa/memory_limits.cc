#include "numa/memory_limits.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "numa/text_files.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kDefaultMaxMapCount = 65530;
constexpr int kCapIpcLock = 14;
/// Bytes that a limit of the process ("Max address space") leaves. `used`: line of status with the
/// kilobytes in use.
std::optional<std::uint64_t> LeftOf(const std::string& root,
                                    std::string_view limit,
                                    std::string_view used) {
  const auto bytes = ReadField(absl::StrCat(root, "/proc/self/limits"), limit);
  if (!bytes) return std::nullopt;
  const std::uint64_t kib = ReadField(absl::StrCat(root, "/proc/self/status"), used).value_or(0);
  return *bytes - std::min(*bytes, kib * 1024);
}

void TakeLeast(std::uint64_t bytes, std::string source, MemoryLimits* limits) {
  if (bytes >= limits->available_bytes) return;
  limits->available_bytes = bytes;
  limits->available_source = std::move(source);
}

bool HasIpcLock(const std::string& root) {
  const auto fields = ReadFields(absl::StrCat(root, "/proc/self/status"), "CapEff:");
  if (fields.empty()) return false;
  return (std::strtoull(fields[0].c_str(), nullptr, 16) >> kCapIpcLock & 1u) != 0;
}

}  // namespace

bool MemoryLimits::is_short() const {
  return system_available_bytes < total_bytes / 4 ||
         (cgroup && cgroup->available_bytes() < cgroup->limit_bytes / 4);
}

void ChooseTightest(MemoryLimits* limits) {
  limits->available_bytes = limits->system_available_bytes;
  limits->available_source = "MemAvailable of /proc/meminfo";
  if (limits->cgroup) {
    TakeLeast(limits->cgroup->available_bytes(),
              absl::StrCat(limits->cgroup->path, "/", limits->cgroup->file),
              limits);
  }
  if (limits->address_bytes) TakeLeast(*limits->address_bytes, kAddressLimit, limits);
}

absl::StatusOr<MemoryLimits> ReadMemoryLimits(const std::string& root_path) {
  const std::string root = root_path == "/" ? "" : root_path;
  const std::string meminfo = absl::StrCat(root, "/proc/meminfo");
  const auto total = ReadField(meminfo, "MemTotal:");
  const auto available = ReadField(meminfo, "MemAvailable:");
  if (!total || !available) {
    return absl::NotFoundError(absl::StrCat("cannot read MemTotal, MemAvailable of ", meminfo));
  }
  MemoryLimits limits;
  limits.total_bytes = *total * 1024;
  limits.system_available_bytes = *available * 1024;
  limits.cgroup = ReadCgroupMemory(root);
  limits.address_bytes = LeftOf(root, "Max address space", "VmSize:");
  limits.data_bytes = LeftOf(root, "Max data size", "VmData:");
  ChooseTightest(&limits);
  limits.memlock_bytes = ReadField(absl::StrCat(root, "/proc/self/limits"), "Max locked memory");
  limits.memlock_exempt = HasIpcLock(root);
  limits.max_map_count =
      ReadNumber(absl::StrCat(root, "/proc/sys/vm/max_map_count")).value_or(kDefaultMaxMapCount);
  return limits;
}

}  // namespace sluice::numa
