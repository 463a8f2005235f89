#include "runtime/sim/facts/op_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace sluice::sim {
namespace {

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

/// Puts one op after the other into groups.
class Grouper {
 public:
  /// Puts the op into the group of this name, or into that of the rest once there are too many.
  void Put(const std::string& name, const OpGroup& op) {
    auto found = ids_.find(name);
    if (found == ids_.end()) {
      const std::string& own = ids_.size() < kGroupsMax ? name : kOtherGroups;
      found = ids_.try_emplace(own, static_cast<std::uint32_t>(result_.groups.size())).first;
      if (found->second == result_.groups.size()) result_.groups.emplace_back().name = own;
    }
    Add(op, &result_.groups[found->second]);
    result_.of_op.push_back(found->second);
  }

  /// Takes the groups, the longest first. Groups that take equally long are by name.
  Grouping Take() {
    std::vector<std::uint32_t> order;
    for (const auto& [name, id] : ids_) order.push_back(id);
    std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
      return result_.groups[a].seconds > result_.groups[b].seconds;
    });
    Grouping sorted{.groups = {}, .of_op = std::move(result_.of_op)};
    std::vector<std::uint32_t> places(order.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      sorted.groups.push_back(std::move(result_.groups[order[place]]));
      places[order[place]] = place;
    }
    for (std::uint32_t& group : sorted.of_op) group = places[group];
    return sorted;
  }

 private:
  static inline const std::string kOtherGroups = "(others)";

  std::map<std::string, std::uint32_t> ids_;
  Grouping result_;
};

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
  Grouper by_name, by_lane;
  OpGroups groups;
  for (const FileOp& op : schedule.ops) {
    const OpGroup one{.name = {},
                      .ops = 1,
                      .seconds = op.seconds,
                      .read = reads.Count(op.reads),
                      .written = writes.Count(op.writes)};
    by_name.Put(GroupName(op.name), one);
    by_lane.Put(op.lane, one);
    Add(one, &groups.all);
  }
  groups.by_name = by_name.Take();
  groups.by_lane = by_lane.Take();
  return groups;
}

}  // namespace sluice::sim
