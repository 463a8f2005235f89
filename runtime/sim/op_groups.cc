#include "runtime/sim/op_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace sluice::sim {
namespace {

constexpr const char* kOtherGroups = "(others)";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Adds up bytes of one direction, those that one op touches twice only once.
class KindCounter {
 public:
  KindCounter(const FileSchedule& schedule, const Extents& extents)
      : schedule_(schedule), extents_(extents), last_count_(extents.size(), 0) {}

  KindBytes Count(const std::vector<FileAccess>& accesses) {
    KindBytes bytes{};
    ++count_;
    for (const FileAccess& access : accesses) {
      const auto kind = static_cast<std::size_t>(schedule_.tensors[access.tensor].kind);
      const Extents::Range range = extents_.OfAccess(access);
      for (std::uint32_t i = range.first; i < range.last; ++i) {
        if (last_count_[i] == count_) continue;
        last_count_[i] = count_;
        bytes[kind] += extents_.bytes(i);
      }
    }
    return bytes;
  }

 private:
  const FileSchedule& schedule_;
  const Extents& extents_;
  std::vector<std::uint64_t> last_count_;
  std::uint64_t count_ = 0;
};

void Add(const OpGroup& op, OpGroup* group) {
  group->ops += op.ops;
  group->seconds += op.seconds;
  for (std::size_t kind = 0; kind < op.read.size(); ++kind) {
    group->read[kind] += op.read[kind];
    group->written[kind] += op.written[kind];
  }
}

/// The group of this name, or that of the rest once there are too many.
OpGroup* GroupOf(const std::string& name, std::map<std::string, OpGroup>* groups) {
  const auto found = groups->find(name);
  if (found != groups->end()) return &found->second;
  return &(*groups)[groups->size() < kGroupsMax ? name : std::string(kOtherGroups)];
}

std::vector<OpGroup> Sorted(const std::map<std::string, OpGroup>& groups) {
  std::vector<OpGroup> sorted;
  for (const auto& [name, group] : groups) {
    sorted.push_back(group);
    sorted.back().name = name;
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const OpGroup& a, const OpGroup& b) {
    return a.seconds > b.seconds;
  });
  return sorted;
}

}  // namespace

std::uint64_t Sum(const KindBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::string GroupName(std::string_view op) {
  std::string name;
  for (std::size_t i = 0; i < op.size();) {
    std::size_t end = i;
    while (end < op.size() && IsDigit(op[end])) ++end;
    if (end == i) {
      name += op[i++];
      continue;
    }
    const bool part_of_a_word = end < op.size() && IsLetter(op[end]);
    name += part_of_a_word ? op.substr(i, end - i) : "*";
    i = end;
  }
  return name;
}

OpGroups GroupOps(const FileSchedule& schedule, const Extents& extents) {
  KindCounter reads(schedule, extents);
  KindCounter writes(schedule, extents);
  std::map<std::string, OpGroup> by_name;
  std::map<std::string, OpGroup> by_lane;
  OpGroups groups;
  for (const FileOp& op : schedule.ops) {
    const OpGroup one{.ops = 1,
                      .seconds = op.seconds,
                      .read = reads.Count(op.reads),
                      .written = writes.Count(op.writes)};
    Add(one, GroupOf(GroupName(op.name), &by_name));
    Add(one, GroupOf(op.lane, &by_lane));
    Add(one, &groups.all);
  }
  groups.by_name = Sorted(by_name);
  groups.by_lane = Sorted(by_lane);
  return groups;
}

}  // namespace sluice::sim
