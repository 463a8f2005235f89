#include "runtime/sim/schedule/merge_accesses.h"

#include <algorithm>
#include <utility>

namespace sluice::sim {

std::vector<FileAccess> MergeAccesses(std::vector<FileAccess> accesses) {
  std::sort(accesses.begin(), accesses.end(), [](const FileAccess& a, const FileAccess& b) {
    return std::pair(a.tensor, a.range.offset) < std::pair(b.tensor, b.range.offset);
  });
  std::vector<FileAccess> merged;
  for (const FileAccess& access : accesses) {
    const std::uint64_t end = access.range.offset + access.range.bytes;
    if (merged.empty() || merged.back().tensor != access.tensor ||
        merged.back().range.offset + merged.back().range.bytes < access.range.offset) {
      merged.push_back(access);
      continue;
    }
    ByteRange& last = merged.back().range;
    last.bytes = std::max(last.bytes, end - last.offset);
  }
  return merged;
}

}  // namespace sluice::sim
