#include <sys/resource.h>

#include "fmt/format.h"
#include "runtime/engine/setup/memory_needs.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kDefaultPageBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kSmallPageBytes = std::uint64_t{256} << 10;

void AddMemlock(const numa::MemoryLimits& limits, Section& section) {
  const std::string value =
      limits.memlock_bytes ? ToString(Bytes(*limits.memlock_bytes)) : std::string("unlimited");
  if (limits.memlock_bytes) {
    section.Add("memlock_bytes", *limits.memlock_bytes, value);
  } else {
    section.Add("memlock_unlimited", true, value);
  }
  section.Add("memlock_exempt",
              limits.memlock_exempt,
              limits.memlock_exempt ? "yes (CAP_IPC_LOCK): the limit does not hold" : "no");
  if (limits.memlock_bytes && !limits.memlock_exempt) {
    section.Warn(
        fmt::format("at most {} can be registered with io_uring or pinned; raise it with "
                    "ulimit -l or LimitMEMLOCK=",
                    value));
  }
}

void AddMapCount(std::uint64_t max_map_count, Section& section) {
  section.Add("max_map_count",
              max_map_count,
              fmt::format("{}: enough for {} of pages of 2 MiB, {} of 256 KiB",
                          max_map_count,
                          ToString(Bytes(MappableBytes(max_map_count, kDefaultPageBytes))),
                          ToString(Bytes(MappableBytes(max_map_count, kSmallPageBytes)))));
}

void AddResource(const std::string& key, __rlimit_resource_t resource, Section& section) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  section.Add(key, limit.rlim_cur, fmt::format("{}", limit.rlim_cur));
}

}  // namespace

std::uint64_t MappableBytes(std::uint64_t max_map_count, std::uint64_t page_bytes) {
  return engine::MappableFrames(max_map_count) * page_bytes;
}

Section DescribeLimits(const absl::StatusOr<numa::MemoryLimits>& limits) {
  Section section("limits");
  if (!limits.ok()) {
    section.Warn(std::string(limits.status().message()));
    return section;
  }
  AddMemlock(*limits, section);
  AddMapCount(limits->max_map_count, section);
  AddResource("file_bytes_max", RLIMIT_FSIZE, section);
  AddResource("open_files_max", RLIMIT_NOFILE, section);
  return section;
}

}  // namespace sluice::tools
