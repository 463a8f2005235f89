#include "runtime/core/paging/hastening.h"

#include <algorithm>

#include "runtime/core/machine/machine.h"

namespace sluice::core {

void Hastening::NoteStart(TaskNumber number, const Task& task) {
  if (task.target < task.source) return;
  (task.urgent ? hurried_ : unhurried_).insert(number);
  if (!task.urgent) ++m_.tiers[task.source].unhurried;
}

void Hastening::NoteEnd(TaskNumber number, const Task& task) {
  hurried_.erase(number);
  if (unhurried_.erase(number) > 0) --m_.tiers[task.source].unhurried;
}

void Hastening::NoteShortage(TierIndex tier, const Claim& claim) {
  if (unhurried_.empty() || claim.purpose != Purpose::kDemand) return;
  const auto known = std::count_if(
      shortages_.begin(), shortages_.end(), [&](const Shortage& s) { return s.tier == tier; });
  if (known >= m_.options.copies_in_flight_max) return;  // no more than that is ever in flight
  shortages_.push_back({tier, claim, m_.tiers[tier].no_victim});
}

void Hastening::HastenForWriter(PageIndex index) {
  if (m_.page(index).tasks == 0) return;
  for (auto next = unhurried_.begin(); next != unhurried_.end();) {
    const TaskNumber number = *next++;
    if (m_.tasks.at(number).page == index) Hasten(number);
  }
}

void Hastening::HastenForRoom() {
  for (TierIndex t = 0; t < m_.last_tier(); ++t) HastenForRoomIn(t);
}

/// Makes one page-out urgent per ticket that claims a frame of the tier. Page-outs that were
/// started as urgent count; the oldest others follow.
void Hastening::HastenForRoomIn(TierIndex tier) {
  std::uint32_t served = 0;
  for (const Shortage& shortage : shortages_) {
    // Page-outs of another tier make no room here. If this tier has none, nothing is to be done.
    if (m_.tiers[tier].unhurried == 0 || served == m_.options.copies_in_flight_max) return;
    if (shortage.tier != tier) continue;
    const auto coming = std::count_if(hurried_.begin(), hurried_.end(), [&](TaskNumber number) {
      return MakesRoom(m_.tasks.at(number), shortage);
    });
    ++served;
    if (coming >= served) continue;
    // Pages on their way out come first. A page that is only cleaned leaves if no other page does.
    for (const bool leaving : {true, false}) {
      const auto found = std::find_if(unhurried_.begin(), unhurried_.end(), [&](TaskNumber number) {
        const Task& task = m_.tasks.at(number);
        return m_.pages[task.page].copies[task.source].leaving == leaving &&
               MakesRoom(task, shortage);
      });
      if (found == unhurried_.end()) continue;
      Hasten(*found);
      break;
    }
  }
}

/// Whether the end of the task alone gives the claim a frame: its page leaves then, or may be made
/// to, and no other victim would do as well.
bool Hastening::MakesRoom(const Task& task, const Shortage& shortage) const {
  const TierIndex tier = shortage.tier;
  if (task.kind != TaskKind::kCopy || task.source != tier || task.target < tier) return false;
  const Page& p = m_.pages[task.page];
  const PageCopy& copy = p.copies[tier];
  if (copy.readers != 1 || copy.mapping || copy.transit || m_.facts.PinnedAt(p, tier)) return false;
  if (copy.leaving) return true;
  return shortage.no_victim && m_.victims.MayEvict(tier, task.page, shortage.claim);
}

void Hastening::Hasten(TaskNumber number) {
  Task& task = m_.tasks.at(number);
  task.urgent = true;
  unhurried_.erase(number);
  --m_.tiers[task.source].unhurried;
  hurried_.insert(number);
  m_.Emit(HastenCopy{number, task.target, task.target_frame});
}

}  // namespace sluice::core
