#include "runtime/core/page_visits.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"

namespace sluice::core {
namespace {

/// What happens to one run of bytes of a page.
enum class Effect : std::uint8_t { kNone, kRead, kWrite, kReadWrite, kOverwrite, kDiscard };

/// One access or discard, cut to one page.
struct Touch {
  std::uint32_t op = 0;
  bool is_discard = false;
  bool above = false;
  Effect effect = Effect::kNone;
  std::uint64_t begin = 0;  ///< within the page
  std::uint64_t end = 0;
};

/// Touches of one op on one page; a discard after an op is an event of its own.
struct Event {
  std::uint32_t op = 0;
  bool is_discard = false;
  bool above = false;
  std::vector<Touch> touches;
};

bool Reads(Effect effect) {
  return effect == Effect::kRead || effect == Effect::kWrite || effect == Effect::kReadWrite;
}

bool Writes(Effect effect) {
  return effect == Effect::kWrite || effect == Effect::kReadWrite || effect == Effect::kOverwrite;
}

Effect EffectOf(AccessMode mode) {
  switch (mode) {
    case AccessMode::kRead:
      return Effect::kRead;
    case AccessMode::kWrite:
      return Effect::kWrite;
    case AccessMode::kReadWrite:
      return Effect::kReadWrite;
    case AccessMode::kOverwrite:
      return Effect::kOverwrite;
  }
  return Effect::kReadWrite;
}

/// Numbers the pages that a schedule touches and collects the events of each.
class EventCollector {
 public:
  EventCollector(const Schedule& schedule, TierKind lowest_above)
      : schedule_(schedule), lowest_above_(lowest_above) {
    for (std::uint32_t op = 0; op < schedule.ops.size(); ++op) {
      for (const ScheduleAccess& access : schedule.ops[op].accesses) {
        const bool above = access.tier.kind <= lowest_above_;
        Add(access, {.op = op, .above = above, .effect = EffectOf(access.mode)});
      }
      for (const ScheduleAccess& access : schedule.ops[op].discards) {
        Add(access, {.op = op, .is_discard = true, .effect = Effect::kDiscard});
      }
    }
  }

  std::vector<std::vector<Event>> Take() { return std::move(events_); }

 private:
  void Add(const ScheduleAccess& access, Touch touch) {
    const ScheduleTensor& tensor = schedule_.tensors[access.tensor];
    const std::uint64_t offset = std::min(access.range.offset, tensor.bytes);
    const std::uint64_t bytes = std::min(access.range.bytes, tensor.bytes - offset);
    const std::uint64_t begin = tensor.segment_offset + offset;
    const std::uint64_t end = begin + bytes;
    const std::uint64_t page_bytes = schedule_.page_bytes;
    for (std::uint64_t page = begin / page_bytes; page * page_bytes < end; ++page) {
      touch.begin = std::max(begin, page * page_bytes) - page * page_bytes;
      touch.end = std::min(end, (page + 1) * page_bytes) - page * page_bytes;
      AddTouch(PageOf(tensor.segment, page), touch);
    }
  }

  std::uint32_t PageOf(std::uint32_t segment, std::uint64_t page) {
    const auto next = static_cast<std::uint32_t>(events_.size());
    const auto [entry, inserted] = pages_.try_emplace({segment, page}, next);
    if (inserted) events_.emplace_back();
    return entry->second;
  }

  void AddTouch(std::uint32_t page, const Touch& touch) {
    std::vector<Event>& events = events_[page];
    const bool same = !events.empty() && events.back().op == touch.op &&
                      events.back().is_discard == touch.is_discard;
    if (!same) events.push_back({.op = touch.op, .is_discard = touch.is_discard});
    events.back().above |= touch.above;
    events.back().touches.push_back(touch);
  }

  const Schedule& schedule_;
  const TierKind lowest_above_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> pages_;
  std::vector<std::vector<Event>> events_;
};

/// The effect of an event on the bytes from `begin` to the next cut: a read anywhere in the op
/// comes before its overwrites.
Effect EffectAt(const Event& event, std::uint64_t begin) {
  Effect effect = Effect::kNone;
  for (const Touch& touch : event.touches) {
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
std::vector<std::uint64_t> CutsOf(const std::vector<Event>& events) {
  std::vector<std::uint64_t> cuts;
  for (const Event& event : events) {
    for (const Touch& touch : event.touches) {
      cuts.push_back(touch.begin);
      cuts.push_back(touch.end);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// What is known of one run of bytes around one event.
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
std::vector<RunState> StatesOf(std::span<const Event> events, std::span<const Effect> effects) {
  const std::vector<bool> needed = NeededBefore(effects);
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

std::vector<PageVisit> VisitsOfPage(std::uint32_t page, const std::vector<Event>& events) {
  std::vector<PageVisit> all(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    all[i] = {.page = page, .op = events[i].op, .above = events[i].above};
  }
  for (const std::uint64_t begin : CutsOf(events)) {
    std::vector<Effect> effects(events.size());
    for (std::size_t i = 0; i < events.size(); ++i) effects[i] = EffectAt(events[i], begin);
    const std::vector<RunState> states = StatesOf(events, effects);
    for (std::size_t i = 0; i < events.size(); ++i) {
      all[i].writes |= Writes(effects[i]);
      all[i].alive_before |= states[i].alive_before;
      all[i].fresh_after |= states[i].fresh_after;
      all[i].unmet_after |= states[i].unmet_after;
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
  const std::vector<std::vector<Event>> events = EventCollector(schedule, lowest_above).Take();
  PageVisits result{.op_count = static_cast<std::uint32_t>(schedule.ops.size())};
  result.visits.reserve(events.size());
  for (std::uint32_t page = 0; page < events.size(); ++page) {
    result.visits.push_back(VisitsOfPage(page, events[page]));
  }
  return result;
}

}  // namespace sluice::core
