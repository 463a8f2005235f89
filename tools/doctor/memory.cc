#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

void AddBytes(const std::string& key, std::uint64_t bytes, Section& section) {
  section.Add(key, bytes, ToString(Bytes(bytes)));
}

}  // namespace

Section DescribeMemory(const absl::StatusOr<numa::MemoryLimits>& limits) {
  Section section("memory");
  if (!limits.ok()) {
    section.Warn(std::string(limits.status().message()));
    return section;
  }
  AddBytes("total_bytes", limits->total_bytes, section);
  AddBytes("free_bytes", limits->system_available_bytes, section);
  if (limits->cgroup) {
    section.Add("cgroup",
                {{"path", limits->cgroup->path},
                 {"limit_bytes", limits->cgroup->limit_bytes},
                 {"used_bytes", limits->cgroup->used_bytes}},
                fmt::format("{} of {} used ({})",
                            ToString(Bytes(limits->cgroup->used_bytes)),
                            ToString(Bytes(limits->cgroup->limit_bytes)),
                            limits->cgroup->path));
  }
  AddBytes("available_bytes", limits->available_bytes, section);
  section.Add("available_source", limits->available_source);
  return section;
}

}  // namespace sluice::tools
