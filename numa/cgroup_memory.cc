#include "numa/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "numa/text_files.h"

namespace sluice::numa {
namespace {

/// Version 1 writes "unlimited" as a number close to 2^63.
constexpr std::uint64_t kUnlimitedFrom = 1ull << 62;

/// The names by which a version of cgroup calls the same things.
struct CgroupNames {
  std::string_view file_system;
  std::string_view usual_mount;
  std::span<const std::string_view> limits;
  std::string_view usage;
  std::span<const std::string_view> reclaimable;  ///< fields of memory.stat
};

constexpr std::string_view kLimits1[] = {"memory.limit_in_bytes"};
constexpr std::string_view kLimits2[] = {"memory.max", "memory.high"};
// Memory that the kernel gives back before it kills: page cache and, in version 2, freeable kernel
// memory.
constexpr std::string_view kReclaimable1[] = {"total_inactive_file ", "total_active_file "};
constexpr std::string_view kReclaimable2[] = {
    "inactive_file ", "active_file ", "slab_reclaimable "};
constexpr CgroupNames kVersion1{.file_system = "cgroup",
                                .usual_mount = "/sys/fs/cgroup/memory",
                                .limits = kLimits1,
                                .usage = "memory.usage_in_bytes",
                                .reclaimable = kReclaimable1};
constexpr CgroupNames kVersion2{.file_system = "cgroup2",
                                .usual_mount = "/sys/fs/cgroup",
                                .limits = kLimits2,
                                .usage = "memory.current",
                                .reclaimable = kReclaimable2};

std::string Join(const std::string& directory, std::string_view file) {
  return absl::StrCat(directory, "/", base::ToAbsl(file));
}

void TakeTighter(std::optional<CgroupMemory> found, std::optional<CgroupMemory>* tightest) {
  if (!found) return;
  if (*tightest && (*tightest)->available_bytes() <= found->available_bytes()) return;
  *tightest = std::move(found);
}

std::optional<CgroupMemory> ReadGroup(const CgroupNames& names, const std::string& directory) {
  std::optional<CgroupMemory> tightest;
  for (const std::string_view file : names.limits) {
    const auto limit = ReadNumber(Join(directory, file));
    if (!limit || *limit >= kUnlimitedFrom) continue;
    if (tightest && tightest->limit_bytes <= *limit) continue;
    tightest = CgroupMemory{.path = directory, .file = std::string(file), .limit_bytes = *limit};
  }
  if (!tightest) return std::nullopt;
  const std::uint64_t usage = ReadNumber(Join(directory, names.usage)).value_or(0);
  std::uint64_t cache = 0;
  for (const std::string_view field : names.reclaimable) {
    cache += ReadField(Join(directory, "memory.stat"), field).value_or(0);
  }
  tightest->used_bytes = usage - std::min(usage, cache);
  return tightest;
}

/// Version 1 may leave the groups below out of what a group counts.
bool CountsThoseBelow(const std::string& directory) {
  return ReadNumber(Join(directory, "memory.use_hierarchy")).value_or(1) != 0;
}

/// Looks at `group` below the mount and at all above it. In a container the path may be one of the
/// host, which is not there. The container's own group is then the mount point itself, the last one
/// looked at.
std::optional<CgroupMemory> TightestOf(const CgroupNames& names,
                                       const std::string& mount,
                                       std::string group) {
  std::optional<CgroupMemory> tightest;
  if (group == "/") group.clear();
  for (bool own = true;; own = false) {
    const std::string directory = mount + group;
    if (own || CountsThoseBelow(directory)) TakeTighter(ReadGroup(names, directory), &tightest);
    if (group.empty()) return tightest;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

bool NamesMemory(std::string_view options) {
  std::istringstream words{std::string(options)};
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "memory") return true;
  }
  return false;
}

/// Blanks and their like are written as "\040" in mountinfo.
std::string Unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size();
    plain += octal ? static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                       (text[i + 3] - '0'))
                   : text[i];
    if (octal) i += 3;
  }
  return plain;
}

/// A hierarchy of groups, mounted: `group` is what its mount point shows.
struct CgroupMount {
  std::string group;
  std::string point;
};

/// Lines of mountinfo are "id parent device ROOT POINT options ... - TYPE source SUPEROPTIONS".
std::optional<CgroupMount> MountOf(const CgroupNames& names, const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream front(line.substr(0, dash));
  std::istringstream back(line.substr(dash + 3));
  std::string skipped, group, point, type, options;
  if (!(front >> skipped >> skipped >> skipped >> group >> point)) return std::nullopt;
  if (!(back >> type >> skipped >> options) || type != names.file_system) return std::nullopt;
  if (&names == &kVersion1 && !NamesMemory(options)) return std::nullopt;
  return CgroupMount{Unescape(group), Unescape(point)};
}

std::vector<CgroupMount> MountsOf(const CgroupNames& names, const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/self/mountinfo"));
  std::vector<CgroupMount> mounts;
  for (std::string line; std::getline(file, line);) {
    if (auto mount = MountOf(names, line)) mounts.push_back(*std::move(mount));
  }
  if (mounts.empty()) mounts.push_back({"/", std::string(names.usual_mount)});
  return mounts;
}

/// `group` as it is called below the mount: without what the mount leaves out above.
std::string BelowMount(const CgroupMount& mount, const std::string& group) {
  const std::string& top = mount.group;
  if (top == "/") return group;
  const bool below = group.compare(0, top.size(), top) == 0 &&
                     (group.size() == top.size() || group[top.size()] == '/');
  return below ? group.substr(top.size()) : group;
}

/// All mounts of the hierarchy, as a container may have more than one, each with another part.
std::optional<CgroupMemory> TightestOfMounts(const CgroupNames& names,
                                             const std::string& root,
                                             const std::string& group) {
  std::optional<CgroupMemory> tightest;
  for (const CgroupMount& mount : MountsOf(names, root)) {
    TakeTighter(TightestOf(names, root + mount.point, BelowMount(mount, group)), &tightest);
  }
  return tightest;
}

}  // namespace

/// Lines of /proc/self/cgroup are "hierarchy:controllers:path"; version 2 has no controllers.
std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  std::optional<CgroupMemory> tightest;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !NamesMemory(controllers)) continue;
    const CgroupNames& names = controllers.empty() ? kVersion2 : kVersion1;
    TakeTighter(TightestOfMounts(names, root, line.substr(second + 1)), &tightest);
  }
  return tightest;
}

}  // namespace sluice::numa
