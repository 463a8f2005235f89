#include "runtime/core/state/need_queue.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace sluice::core {

void NeedQueue::Add(Ordinal need) {
  if (need >= places_.size()) places_.resize(std::size_t{need} + 1);
  Membership& place = places_[need];
  if (place.number != 0) return Move(need, kAlone);
  place = {++last_, kAlone};
  used_ |= BitOf(kAlone);
  groups_[kAlone].emplace_hint(groups_[kAlone].end(), place.number, need);
}

void NeedQueue::Remove(Ordinal need) {
  if (need >= places_.size()) return;
  Membership& place = places_[need];
  if (place.number != 0) groups_[place.group].erase(place.number);
  place = {};
}

void NeedQueue::Move(Ordinal need, Group group) {
  Membership& place = places_.at(need);
  SLUICE_CHECK(place.number != 0, "only a need that is queued can wait for something");
  if (place.group == group) return;
  groups_[place.group].erase(place.number);
  place.group = group;
  used_ |= BitOf(group);
  groups_[group].emplace(place.number, need);
}

std::optional<NeedQueue::Ordinal> NeedQueue::Next(Pass* pass) const {
  std::optional<std::pair<Number, Ordinal>> first;
  for (std::uint32_t open = used_ & ~pass->closed; open != 0; open &= open - 1) {
    const auto group = static_cast<std::size_t>(std::countr_zero(open));
    const auto found = groups_[group].lower_bound(pass->next);
    if (found == groups_[group].end()) continue;
    if (!first.has_value() || found->first < first->first) first = *found;
  }
  if (!first.has_value()) return std::nullopt;
  pass->next = first->first + 1;
  return first->second;
}

}  // namespace sluice::core
