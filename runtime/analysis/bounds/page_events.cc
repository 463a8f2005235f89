#include "runtime/analysis/bounds/page_events.h"

#include <algorithm>
#include <utility>

namespace sluice::analysis {
namespace {

/// The first page behind a cut, in a segment.
using Cut = std::pair<std::uint32_t, std::uint64_t>;

/// The bytes of an access, within its segment.
struct Extent {
  std::uint32_t segment = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Extent ExtentOf(const Schedule& schedule, const ScheduleAccess& access) {
  const ScheduleTensor& tensor = schedule.tensors[access.tensor];
  const std::uint64_t offset = std::min(access.range.offset, tensor.bytes);
  const std::uint64_t bytes = std::min(access.range.bytes, tensor.bytes - offset);
  const std::uint64_t begin = tensor.segment_offset + offset;
  return {tensor.segment, begin, begin + bytes};
}

Effect EffectOf(AccessMode mode) {
  switch (mode) {
    case AccessMode::kRead:
      return Effect::kRead;
    case AccessMode::kReadWrite:
      return Effect::kReadWrite;
    case AccessMode::kOverwrite:
      return Effect::kOverwrite;
  }
  return Effect::kReadWrite;
}

/// Cuts segments into runs of pages that no access tells apart: a page that an access covers in
/// part is a run of its own.
class RunCollector {
 public:
  RunCollector(const Schedule& schedule, TierKind lowest_above)
      : schedule_(schedule), lowest_above_(lowest_above) {
    for (const ScheduleOp& op : schedule.ops) {
      for (const ScheduleAccess& access : op.accesses) AddCuts(access);
      for (const ScheduleAccess& access : op.discards) AddCuts(access);
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    runs_.resize(cuts_.size());
    for (std::uint32_t op = 0; op < schedule.ops.size(); ++op) AddOp(op);
  }

  /// The runs that something touches.
  std::vector<AlikePages> Take() {
    std::vector<AlikePages> touched;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].events.empty()) continue;
      runs_[i].pages = cuts_[i + 1].second - cuts_[i].second;
      touched.push_back(std::move(runs_[i]));
    }
    return touched;
  }

 private:
  void AddCuts(const ScheduleAccess& access) {
    const Extent extent = ExtentOf(schedule_, access);
    const std::uint64_t page_bytes = schedule_.page_bytes;
    for (const std::uint64_t byte : {extent.begin, extent.end}) {
      cuts_.emplace_back(extent.segment, byte / page_bytes);
      cuts_.emplace_back(extent.segment, (byte + page_bytes - 1) / page_bytes);
    }
  }

  void AddOp(std::uint32_t op) {
    for (const ScheduleAccess& access : schedule_.ops[op].accesses) {
      const Effect effect = EffectOf(access.mode);
      const bool above = access.tier.kind <= lowest_above_;
      Add(access, {.op = op, .above = above, .writes = Writes(effect)}, effect);
    }
    for (const ScheduleAccess& access : schedule_.ops[op].discards) {
      Add(access, {.op = op, .is_discard = true}, Effect::kDiscard);
    }
  }

  void Add(const ScheduleAccess& access, const PageEvent& event, Effect effect) {
    const Extent extent = ExtentOf(schedule_, access);
    const std::uint64_t page_bytes = schedule_.page_bytes;
    if (extent.begin == extent.end) return;
    const Cut first{extent.segment, extent.begin / page_bytes};
    auto cut = std::lower_bound(cuts_.begin(), cuts_.end(), first);
    for (; cut != cuts_.end() && cut->first == extent.segment; ++cut) {
      const std::uint64_t page_begin = cut->second * page_bytes;
      if (page_begin >= extent.end) return;
      AddTouch(&runs_[static_cast<std::size_t>(cut - cuts_.begin())].events,
               event,
               {.effect = effect,
                .begin = std::max(extent.begin, page_begin) - page_begin,
                .end = std::min(extent.end, page_begin + page_bytes) - page_begin});
    }
  }

  static void AddTouch(std::vector<PageEvent>* events,
                       const PageEvent& event,
                       const PageTouch& touch) {
    const bool same = !events->empty() && events->back().op == event.op &&
                      events->back().is_discard == event.is_discard;
    if (!same) events->push_back({.op = event.op, .is_discard = event.is_discard});
    events->back().above |= event.above;
    events->back().writes |= event.writes;
    events->back().touches.push_back(touch);
  }

  const Schedule& schedule_;
  const TierKind lowest_above_;
  /// Cuts in order. Run i reaches from cut i to cut i + 1; behind the last cut of a segment lies
  /// none.
  std::vector<Cut> cuts_;
  std::vector<AlikePages> runs_;
};

}  // namespace

std::vector<AlikePages> CollectPageRuns(const Schedule& schedule, TierKind lowest_above) {
  return RunCollector(schedule, lowest_above).Take();
}

}  // namespace sluice::analysis
