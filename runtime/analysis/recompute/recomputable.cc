#include "runtime/analysis/recompute/recomputable.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice::analysis {
namespace {

/// Effect of an op on a tensor, and the tensor's fate after it.
struct Touch {
  std::size_t op = 0;
  bool accesses = false;
  bool reads = false;
  bool overwrites = false;  ///< true if the whole tensor is overwritten
  bool changes = false;     ///< writes or discards any part
  bool discards = false;    ///< any part
  bool ends = false;        ///< discards the whole
  std::optional<double> recompute_seconds;
};

/// Touches of each tensor, in the order of the ops.
using Histories = std::vector<std::vector<Touch>>;

bool IsWhole(const Schedule& schedule, const ScheduleAccess& access) {
  return access.range.offset == 0 && access.range.bytes >= schedule.tensors[access.tensor].bytes;
}

Histories FindHistories(const Schedule& schedule) {
  Histories histories(schedule.tensors.size());
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    const auto touch = [&](const ScheduleAccess& access) -> Touch& {
      std::vector<Touch>& history = histories[access.tensor];
      if (history.empty() || history.back().op != op) history.push_back({.op = op});
      return history.back();
    };
    for (const ScheduleAccess& access : schedule.ops[op].accesses) {
      Touch& here = touch(access);
      here.accesses = true;
      here.reads = here.reads || access.mode != AccessMode::kOverwrite;
      here.changes = here.changes || access.mode != AccessMode::kRead;
      if (access.mode != AccessMode::kOverwrite || !IsWhole(schedule, access)) continue;
      here.overwrites = true;
      here.recompute_seconds = access.recompute_seconds;
    }
    for (const ScheduleAccess& discard : schedule.ops[op].discards) {
      Touch& here = touch(discard);
      here.changes = here.discards = true;
      here.ends = here.ends || IsWhole(schedule, discard);
    }
  }
  return histories;
}

std::vector<std::vector<std::size_t>> FindChanges(const Histories& histories) {
  std::vector<std::vector<std::size_t>> changes(histories.size());
  for (std::size_t tensor = 0; tensor < histories.size(); ++tensor) {
    for (const Touch& touch : histories[tensor]) {
      if (touch.changes) changes[tensor].push_back(touch.op);
    }
  }
  return changes;
}

/// Tensors that share bytes with others.
std::vector<bool> FindShared(const Schedule& schedule) {
  std::vector<std::uint32_t> order(schedule.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const ScheduleTensor &first = schedule.tensors[a], &second = schedule.tensors[b];
    return std::pair(first.segment, first.segment_offset) <
           std::pair(second.segment, second.segment_offset);
  });
  std::vector<bool> shared(order.size());
  std::uint32_t furthest = 0;  // tensor before in the segment that ends last
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ScheduleTensor& tensor = schedule.tensors[order[i]];
    const ScheduleTensor& before = schedule.tensors[furthest];
    const std::uint64_t end = before.segment_offset + before.bytes;
    const bool alone = i == 0 || before.segment != tensor.segment;
    if (!alone && tensor.segment_offset < end) shared[furthest] = shared[order[i]] = true;
    if (alone || tensor.segment_offset + tensor.bytes > end) furthest = order[i];
  }
  return shared;
}

/// Looks at one tensor after the other.
class Finder {
 public:
  explicit Finder(const Schedule& schedule)
      : schedule_(schedule),
        times_(FindLaneTimes(schedule)),
        histories_(FindHistories(schedule)),
        shared_(FindShared(schedule)),
        changes_(FindChanges(histories_)),
        inputs_end_(InputsEnd()) {}

  /// The longest gap in which the tensor may be away.
  std::optional<Recomputable> Find(std::uint32_t tensor) const;
  std::vector<Recomputable> FindAll() const;

 private:
  bool HasOneLife(const std::vector<Touch>& history) const;
  std::size_t FirstChange(std::uint32_t tensor, std::size_t from) const;
  std::vector<std::size_t> InputsEnd() const;

  const Schedule& schedule_;
  const LaneTimes times_;
  const Histories histories_;
  const std::vector<bool> shared_;
  const std::vector<std::vector<std::size_t>> changes_;  ///< ops by tensor
  const std::vector<std::size_t> inputs_end_;            ///< one per op
};

/// Whether the tensor has one life: in one lane, ended by a discard.
bool Finder::HasOneLife(const std::vector<Touch>& history) const {
  if (history.empty() || !history.back().ends) return false;
  const std::string_view lane = schedule_.ops[history.front().op].lane;
  return std::all_of(history.begin(), history.end(), [&](const Touch& touch) {
    return !touch.accesses || schedule_.ops[touch.op].lane == lane;
  });
}

std::size_t Finder::FirstChange(std::uint32_t tensor, std::size_t from) const {
  const std::vector<std::size_t>& changes = changes_[tensor];
  const auto found = std::lower_bound(changes.begin(), changes.end(), from);
  return found == changes.end() ? schedule_.ops.size() : *found;
}

/// The op after which one of each op's inputs has changed.
std::vector<std::size_t> Finder::InputsEnd() const {
  std::vector<std::size_t> ends(schedule_.ops.size(), schedule_.ops.size());
  for (std::size_t op = 0; op < ends.size(); ++op) {
    for (const ScheduleAccess& access : schedule_.ops[op].accesses) {
      if (access.mode == AccessMode::kOverwrite) continue;
      const std::size_t end = shared_[access.tensor] ? op : FirstChange(access.tensor, op);
      ends[op] = std::min(ends[op], end);
    }
  }
  return ends;
}

std::optional<Recomputable> Finder::Find(std::uint32_t tensor) const {
  const std::vector<Touch>& history = histories_[tensor];
  if (shared_[tensor] || !HasOneLife(history)) return std::nullopt;
  Recomputable best{.tensor = tensor,
                    .bytes = static_cast<double>(schedule_.tensors[tensor].bytes)};
  const Touch* writer = nullptr;  // writer of the current content
  for (std::size_t i = 0; i + 1 < history.size(); ++i) {
    const Touch &here = history[i], &next = history[i + 1];
    if (here.changes) {
      const bool makes = here.overwrites && !here.reads && !here.discards;
      writer = makes && here.recompute_seconds.has_value() ? &here : nullptr;
    }
    if (writer == nullptr || !next.reads) continue;
    Recomputable one = best;
    std::tie(one.writer, one.last_use, one.next_use) = std::tuple(writer->op, here.op, next.op);
    one.recompute_seconds = *writer->recompute_seconds;
    one.idle_seconds = times_.begin[next.op] - times_.end[here.op];
    const bool inputs_stay = inputs_end_[one.writer] >= one.next_use;
    if (inputs_stay && one.idle_seconds > best.idle_seconds) best = one;
  }
  return best.idle_seconds > 0 ? std::optional(best) : std::nullopt;
}

std::vector<Recomputable> Finder::FindAll() const {
  std::vector<Recomputable> all;
  for (std::uint32_t tensor = 0; tensor < schedule_.tensors.size(); ++tensor) {
    if (const auto one = Find(tensor)) all.push_back(*one);
  }
  return all;
}

double ByteSeconds(const Recomputable& one) { return one.bytes * one.idle_seconds; }

/// The tensors with the most byte-seconds, as long as the accesses of their writers fit in
/// kRecomputableAccessesMax.
std::vector<Recomputable> Largest(const Schedule& schedule,
                                  std::vector<Recomputable> all,
                                  std::size_t count_max) {
  std::stable_sort(all.begin(), all.end(), [](const Recomputable& a, const Recomputable& b) {
    return ByteSeconds(a) > ByteSeconds(b);
  });
  std::vector<Recomputable> largest;
  std::size_t accesses = 0;
  for (const Recomputable& one : all) {
    const std::size_t more = schedule.ops[one.writer].accesses.size();
    if (largest.size() == count_max || accesses + more > kRecomputableAccessesMax) continue;
    accesses += more;
    largest.push_back(one);
  }
  return largest;
}

/// Takes one after the other unless it excludes one that was taken before.
class Selection {
 public:
  explicit Selection(const Schedule& schedule) : schedule_(schedule) {}

  void TakeIfPossible(const Recomputable& one) {
    if (Excludes(one)) return;
    places_[one.tensor] = taken_.size();
    for (const ScheduleAccess& input : schedule_.ops[one.writer].accesses) {
      if (IsRead(input)) readers_[input.tensor].push_back(taken_.size());
    }
    taken_.push_back(one);
  }

  std::vector<Recomputable> Release() { return std::move(taken_); }

 private:
  /// Whether the writer reads the input; its other outputs are not made again.
  static bool IsRead(const ScheduleAccess& input) { return input.mode != AccessMode::kOverwrite; }
  /// Whether `input` is away when `one`, whose writer reads it, is made again.
  static bool IsAway(const Recomputable& input, const Recomputable& one) {
    return input.last_use < one.next_use && input.next_use > one.next_use;
  }

  bool Excludes(const Recomputable& one) const {
    const auto readers = readers_.find(one.tensor);
    if (readers != readers_.end()) {
      for (const std::size_t reader : readers->second) {
        if (IsAway(one, taken_[reader])) return true;
      }
    }
    for (const ScheduleAccess& input : schedule_.ops[one.writer].accesses) {
      const auto found = IsRead(input) ? places_.find(input.tensor) : places_.end();
      if (found != places_.end() && IsAway(taken_[found->second], one)) return true;
    }
    return false;
  }

  const Schedule& schedule_;
  std::vector<Recomputable> taken_;
  std::map<std::uint32_t, std::size_t> places_;  ///< index in taken_, by tensor
  std::map<std::uint32_t, std::vector<std::size_t>>
      readers_;  ///< tensors by what their writers read
};

}  // namespace

LaneTimes FindLaneTimes(const Schedule& schedule) {
  LaneTimes times;
  std::map<std::string_view, double> now;
  for (const ScheduleOp& op : schedule.ops) {
    double& lane = now[op.lane];
    times.begin.push_back(lane);
    times.end.push_back(lane += op.seconds);
  }
  return times;
}

std::vector<Recomputable> FindRecomputable(const Schedule& schedule, std::size_t count_max) {
  std::vector<Recomputable> all = Largest(schedule, Finder(schedule).FindAll(), count_max);
  std::stable_sort(all.begin(), all.end(), [](const Recomputable& a, const Recomputable& b) {
    return a.recompute_seconds * ByteSeconds(b) < b.recompute_seconds * ByteSeconds(a);
  });
  Selection selection(schedule);
  for (const Recomputable& one : all) selection.TakeIfPossible(one);
  std::vector<Recomputable> taken = selection.Release();
  std::sort(taken.begin(), taken.end(), [](const Recomputable& a, const Recomputable& b) {
    return std::tie(a.next_use, a.writer, a.tensor) < std::tie(b.next_use, b.writer, b.tensor);
  });
  return taken;
}

}  // namespace sluice::analysis
