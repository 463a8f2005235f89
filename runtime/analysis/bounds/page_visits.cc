#include "runtime/analysis/bounds/page_visits.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "runtime/analysis/bounds/page_events.h"

namespace sluice::analysis {
namespace {

/// Largest cost of all pages of a schedule: less than a tenth of a second.
constexpr std::uint64_t kCostMax = std::uint64_t{1} << 26;

/// The effect of an event on the bytes from `begin` to the next cut: a read anywhere in the op
/// comes before its overwrites.
Effect EffectAt(const PageEvent& event, std::uint64_t begin) {
  Effect effect = Effect::kNone;
  for (const PageTouch& touch : event.touches) {
    if (begin < touch.begin || begin >= touch.end) continue;
    if (Reads(effect) || Reads(touch.effect)) {
      const bool writes = Writes(effect) || Writes(touch.effect);
      effect = writes ? Effect::kReadWrite : Effect::kRead;
    } else {
      effect = touch.effect;
    }
  }
  return effect;
}

/// The first bytes of the runs into which the touches of a page divide it.
std::vector<std::uint64_t> CutsOf(const std::vector<PageEvent>& events) {
  std::vector<std::uint64_t> cuts;
  for (const PageEvent& event : events) {
    for (const PageTouch& touch : event.touches) {
      cuts.push_back(touch.begin);
      cuts.push_back(touch.end);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// State of one run of bytes around one event.
struct RunState {
  bool alive_before = false;
  bool fresh_after = false;
  bool unmet_after = false;
};

/// Whether the content just before each event is read at that event or later, before it is
/// overwritten or discarded. Two rounds backwards settle a cycle.
std::vector<bool> NeededBefore(std::span<const Effect> effects) {
  std::vector<bool> needed(effects.size());
  bool after = false;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = effects.size(); i-- > 0;) {
      if (Reads(effects[i])) after = true;
      if (effects[i] == Effect::kOverwrite || effects[i] == Effect::kDiscard) after = false;
      needed[i] = after;
    }
  }
  return needed;
}

/// Two rounds forwards settle which content there is, who wrote it and who has met it since.
std::vector<RunState> StatesOf(std::span<const PageEvent> events,
                               std::span<const Effect> effects,
                               const std::vector<bool>& needed) {
  std::vector<RunState> states(effects.size());
  bool defined = true;
  bool fresh = false;
  bool unmet = false;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < effects.size(); ++i) {
      const bool needed_after = needed[(i + 1) % needed.size()];
      states[i].alive_before = defined && needed[i];
      if (!events[i].is_discard && !events[i].above) unmet = false;
      if (Writes(effects[i])) defined = true, fresh = unmet = events[i].above;
      if (effects[i] == Effect::kDiscard) defined = fresh = unmet = false;
      states[i].fresh_after = fresh && needed_after;
      states[i].unmet_after = unmet && needed_after;
    }
  }
  return states;
}

/// Follows what event `from` wrote above in one run of bytes: see PageVisit::fresh_ops.
void FollowWrite(std::span<const PageEvent> events,
                 const std::vector<bool>& needed,
                 std::size_t from,
                 std::uint32_t op_count,
                 PageVisit* visit) {
  for (std::size_t step = 1; step <= events.size(); ++step) {
    const std::size_t at = (from + step) % events.size();
    if (!needed[at]) return;
    const PageEvent& event = events[at];
    if (event.is_discard) continue;
    const bool wraps = from + step >= events.size();
    const std::uint32_t ops = event.op + (wraps ? op_count : 0) - visit->op;
    if (ops >= visit->fresh_ops) {
      visit->fresh_ops = ops;
      visit->fresh_meets_below = !event.above;
    }
    if (!event.above || event.writes) return;
  }
}

/// Number of touches that VisitsOfPage looks at.
std::uint64_t CostOf(const std::vector<PageEvent>& events, std::span<const std::uint64_t> cuts) {
  std::uint64_t touches = 0;
  for (const PageEvent& event : events) touches += event.touches.size();
  return cuts.size() * touches;
}

std::vector<PageVisit> VisitsOfPage(const std::vector<PageEvent>& events,
                                    std::span<const std::uint64_t> cuts,
                                    std::uint32_t op_count) {
  std::vector<PageVisit> all(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    all[i] = {.op = events[i].op, .above = events[i].above, .writes = events[i].writes};
  }
  for (const std::uint64_t begin : cuts) {
    std::vector<Effect> effects(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) effects[i] = EffectAt(events[i], begin);
    const std::vector<bool> needed = NeededBefore(effects);
    const std::vector<RunState> states = StatesOf(events, effects, needed);
    for (std::size_t i = 0; i < events.size(); ++i) {
      all[i].alive_before |= states[i].alive_before;
      all[i].fresh_after |= states[i].fresh_after;
      all[i].unmet_after |= states[i].unmet_after;
      if (events[i].above && Writes(effects[i])) {
        FollowWrite(events, needed, i, op_count, &all[i]);
      }
    }
  }
  std::vector<PageVisit> visits;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events[i].is_discard) visits.push_back(all[i]);
  }
  return visits;
}

}  // namespace

PageVisits VisitsOf(const Schedule& schedule, TierKind lowest_above) {
  SLUICE_CHECK(schedule.page_bytes > 0, "a schedule knows its page size");
  PageVisits result{.op_count = static_cast<std::uint32_t>(schedule.ops.size())};
  std::map<std::vector<PageVisit>, std::size_t> items;
  std::uint64_t cost_left = kCostMax;
  for (const AlikePages& run : CollectPageRuns(schedule, lowest_above)) {
    const std::vector<std::uint64_t> cuts = CutsOf(run.events);
    const std::uint64_t cost = CostOf(run.events, cuts);
    if (cost > cost_left) continue;
    cost_left -= cost;
    std::vector<PageVisit> visits = VisitsOfPage(run.events, cuts, result.op_count);
    if (visits.empty()) continue;
    const auto [item, added] = items.try_emplace(visits, result.visits.size());
    if (added) {
      result.visits.push_back(std::move(visits));
      result.pages.push_back(0);
    }
    result.pages[item->second] += run.pages;
  }
  return result;
}

}  // namespace sluice::analysis
