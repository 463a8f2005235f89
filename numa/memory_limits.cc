#include "numa/memory_limits.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kDefaultMaxMapCount = 65530;
constexpr int kCapIpcLock = 14;
/// Version 1 writes "unlimited" as a number close to 2^63.
constexpr std::uint64_t kUnlimitedFrom = 1ull << 62;

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(base::ToAbsl(text), &value)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return ParseNumber(word);
}

/// The words of the first line that begins with `key`, the key itself left out.
std::vector<std::string> ReadFields(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(key, 0) != 0) continue;
    std::istringstream words(line.substr(key.size()));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    return fields;
  }
  return {};
}

std::optional<std::uint64_t> ReadField(const std::string& path, std::string_view key) {
  const std::vector<std::string> fields = ReadFields(path, key);
  return fields.empty() ? std::nullopt : ParseNumber(fields[0]);
}

/// The names by which a version of cgroup calls the same things.
struct CgroupFiles {
  std::string mount;
  std::string_view limit;
  std::string_view usage;
  std::string_view reclaimable;
};

std::optional<CgroupMemory> ReadGroup(const CgroupFiles& files, const std::string& group) {
  const std::string directory = absl::StrCat(files.mount, group);
  const auto limit = ReadNumber(absl::StrCat(directory, "/", base::ToAbsl(files.limit)));
  if (!limit || *limit >= kUnlimitedFrom) return std::nullopt;
  const std::uint64_t usage =
      ReadNumber(absl::StrCat(directory, "/", base::ToAbsl(files.usage))).value_or(0);
  const std::uint64_t cache =
      ReadField(absl::StrCat(directory, "/memory.stat"), files.reclaimable).value_or(0);
  return CgroupMemory{
      .path = directory, .limit_bytes = *limit, .used_bytes = usage - std::min(usage, cache)};
}

/// Looks at the group and all above it. In a container the path may be one of the host, which is
/// not there; its own group is then the mount point itself, the last that is looked at.
std::optional<CgroupMemory> TightestOf(const CgroupFiles& files, std::string group) {
  std::optional<CgroupMemory> tightest;
  if (group == "/") group.clear();
  for (;;) {
    const std::optional<CgroupMemory> found = ReadGroup(files, group);
    if (found && (!tightest || found->available_bytes() < tightest->available_bytes())) {
      tightest = found;
    }
    if (group.empty()) return tightest;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

bool NamesMemory(std::string_view controllers) {
  std::istringstream words{std::string(controllers)};
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "memory") return true;
  }
  return false;
}

/// Lines of /proc/self/cgroup are "hierarchy:controllers:path"; version 2 has hierarchy 0 and no
/// controllers.
std::optional<CgroupMemory> ReadCgroup(const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  std::optional<CgroupMemory> tightest;
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    CgroupFiles files;
    if (controllers.empty()) {
      files = {
          absl::StrCat(root, "/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file "};
    } else if (NamesMemory(controllers)) {
      files = {absl::StrCat(root, "/sys/fs/cgroup/memory"),
               "memory.limit_in_bytes",
               "memory.usage_in_bytes",
               "total_inactive_file "};
    } else {
      continue;
    }
    const auto found = TightestOf(files, line.substr(second + 1));
    if (found && (!tightest || found->available_bytes() < tightest->available_bytes())) {
      tightest = found;
    }
  }
  return tightest;
}

bool HasIpcLock(const std::string& root) {
  const auto fields = ReadFields(absl::StrCat(root, "/proc/self/status"), "CapEff:");
  if (fields.empty()) return false;
  return (std::strtoull(fields[0].c_str(), nullptr, 16) >> kCapIpcLock & 1u) != 0;
}

}  // namespace

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
  limits.cgroup = ReadCgroup(root);
  limits.available_bytes = limits.system_available_bytes;
  if (limits.cgroup) {
    limits.available_bytes = std::min(limits.available_bytes, limits.cgroup->available_bytes());
  }
  limits.memlock_bytes = ReadField(absl::StrCat(root, "/proc/self/limits"), "Max locked memory");
  limits.memlock_exempt = HasIpcLock(root);
  limits.max_map_count =
      ReadNumber(absl::StrCat(root, "/proc/sys/vm/max_map_count")).value_or(kDefaultMaxMapCount);
  return limits;
}

}  // namespace sluice::numa
