#include "tests/runtime/analysis/bounds/exhaustive_paging.h"

#include <algorithm>
#include <bit>
#include <map>

namespace sluice::analysis {
namespace {

constexpr std::uint64_t kImpossible = UINT64_MAX;

bool Covers(const Schedule& schedule,
            const ScheduleAccess& access,
            std::uint32_t segment,
            std::uint64_t byte) {
  const ScheduleTensor& tensor = schedule.tensors[access.tensor];
  if (tensor.segment != segment || byte < tensor.segment_offset) return false;
  const std::uint64_t within = byte - tensor.segment_offset;
  return within < tensor.bytes && within >= access.range.offset &&
         within - access.range.offset < access.range.bytes;
}

bool AnyCovers(const Schedule& schedule,
               const std::vector<ScheduleAccess>& accesses,
               std::uint32_t segment,
               std::uint64_t byte,
               bool (*wanted)(AccessMode)) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const ScheduleAccess& access) {
    return wanted(access.mode) && Covers(schedule, access, segment, byte);
  });
}

bool IsAny(AccessMode) { return true; }
bool NeedsOld(AccessMode mode) { return mode != AccessMode::kOverwrite; }
bool Changes(AccessMode mode) { return mode != AccessMode::kRead; }

/// Keeps the cheapest way to reach each state.
void Offer(std::map<std::uint64_t, std::uint64_t>* states,
           std::uint64_t state,
           std::uint64_t cost) {
  const auto [entry, inserted] = states->try_emplace(state, cost);
  if (!inserted) entry->second = std::min(entry->second, cost);
}

std::uint64_t Cheapest(const std::map<std::uint64_t, std::uint64_t>& states) {
  std::uint64_t least = kImpossible;
  for (const auto& [state, cost] : states) least = std::min(least, cost);
  return least;
}

}  // namespace

ExhaustivePaging::ExhaustivePaging(const Schedule& schedule) {
  for (const ScheduleTensor& tensor : schedule.tensors) {
    pages_ = std::max(pages_, tensor.segment + 1);
  }
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    Moment moment;
    for (const ScheduleAccess& access : schedule.ops[op].accesses) {
      const Mask page = Mask{1} << schedule.tensors[access.tensor].segment;
      (access.tier.kind == TierKind::kHbm ? moment.above : moment.below) |= page;
      if (Changes(access.mode)) moment.written |= page;
    }
    for (std::uint32_t page = 0; page < pages_; ++page) {
      for (std::uint64_t byte = 0; byte < schedule.page_bytes; ++byte) {
        const Mask bit = Mask{1} << page;
        if (IsAlive(schedule, page, byte, op, false)) moment.alive_before |= bit;
        if (IsAlive(schedule, page, byte, op, true)) moment.alive_after |= bit;
      }
    }
    moments_.push_back(moment);
  }
}

/// Walks forwards until the byte's fate is known, and backwards until its origin is.
bool ExhaustivePaging::IsAlive(const Schedule& schedule,
                               std::uint32_t segment,
                               std::uint64_t byte,
                               std::size_t op,
                               bool after) const {
  const std::size_t ops = schedule.ops.size();
  const auto covered = [&](const std::vector<ScheduleAccess>& accesses, auto wanted) {
    return AnyCovers(schedule, accesses, segment, byte, wanted);
  };
  bool needed = false;
  for (std::size_t step = after ? 1 : 0; step <= ops; ++step) {
    const ScheduleOp& next = schedule.ops[(op + step) % ops];
    needed = covered(next.accesses, NeedsOld);
    if (needed || covered(next.accesses, IsAny) || covered(next.discards, IsAny)) break;
  }
  if (!needed) return false;
  for (std::size_t step = after ? 0 : 1; step <= ops; ++step) {
    const ScheduleOp& last = schedule.ops[(op + ops - step) % ops];
    if (covered(last.discards, IsAny)) return false;
    if (covered(last.accesses, Changes)) return true;
  }
  return true;
}

std::uint32_t ExhaustivePaging::largest_op() const {
  int largest = 0;
  for (const Moment& moment : moments_) largest = std::max(largest, std::popcount(moment.above));
  return static_cast<std::uint32_t>(largest);
}

/// States: the pages above whose copy is good.
std::uint64_t ExhaustivePaging::LeastFetches(const Run& run) const {
  const Mask all = (Mask{1} << pages_) - 1;
  std::map<std::uint64_t, std::uint64_t> states;
  for (Mask held = 0; held <= all; ++held) {
    const bool fits = static_cast<std::uint64_t>(std::popcount(held)) <= run.capacity;
    if (held == 0 || (!run.start_empty && fits)) states[held] = 0;
  }
  for (std::size_t i = 0; i < moments_.size() * static_cast<std::size_t>(run.iterations); ++i) {
    const Moment& moment = moments_[i % moments_.size()];
    std::map<std::uint64_t, std::uint64_t> after;
    for (const auto& [state, cost] : states) {
      const Mask held = static_cast<Mask>(state);
      const Mask fetched = moment.above & ~held & moment.alive_before;
      for (Mask kept = 0; kept <= all; ++kept) {
        if ((kept & ~held) != 0) continue;
        const Mask now = kept | moment.above;
        if (static_cast<std::uint64_t>(std::popcount(now)) > run.capacity) continue;
        const Mask good = now & ~(moment.below & moment.written);
        Offer(&after, good, cost + static_cast<std::uint64_t>(std::popcount(fetched)));
      }
    }
    states = std::move(after);
  }
  return Cheapest(states);
}

/// States: the pages above (low half) and, of these, the ones whose content exists nowhere else
/// (high half).
std::uint64_t ExhaustivePaging::LeastWrites(const Run& run) const {
  const Mask all = (Mask{1} << pages_) - 1;
  std::map<std::uint64_t, std::uint64_t> states;
  for (Mask held = 0; held <= all; ++held) {
    if (static_cast<std::uint64_t>(std::popcount(held)) > run.capacity) continue;
    // Content that exists above only costs more than content that was written out before.
    states[held] = 0;
  }
  for (std::size_t i = 0; i < moments_.size() * static_cast<std::size_t>(run.iterations); ++i) {
    const Moment& moment = moments_[i % moments_.size()];
    std::map<std::uint64_t, std::uint64_t> after;
    for (const auto& [state, cost] : states) {
      const Mask held = static_cast<Mask>(state) & all;
      const Mask dirty = static_cast<Mask>(state >> 32) & moment.alive_before;
      for (Mask kept = 0; kept <= all; ++kept) {
        if ((kept & ~held) != 0) continue;
        const Mask now = kept | moment.above;
        if (static_cast<std::uint64_t>(std::popcount(now)) > run.capacity) continue;
        // Pages that leave, or that an op below needs, are written first.
        const Mask out = dirty & (~now | moment.below);
        Mask dirty_now = (dirty & ~out) | (moment.above & moment.written);
        const Mask good = now & ~(moment.below & moment.written);
        dirty_now &= good & moment.alive_after;
        Offer(&after,
              good | (std::uint64_t{dirty_now} << 32),
              cost + static_cast<std::uint64_t>(std::popcount(out)));
      }
    }
    states = std::move(after);
  }
  return Cheapest(states);
}

}  // namespace sluice::analysis
