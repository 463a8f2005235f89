#include "io/drives/drive_places.h"

#include <utility>

#include "base/check.h"

namespace sluice::io {

DrivePlaces::DrivePlaces(SlotIndex slots, const std::vector<SlotIndex>& shares) : entries_(slots) {
  for (const SlotIndex share : shares) {
    std::deque<SlotIndex>& free = free_.emplace_back();
    // From the back: low slots first, so that pages written in a row are neighbours.
    for (SlotIndex slot = share; slot-- > 0;) free.push_back(slot);
  }
}

std::optional<Place> DrivePlaces::FindAcknowledged(SlotIndex slot) const {
  const Entry& entry = entries_[slot];
  return entry.holds && !entry.forgotten ? std::optional(entry.place) : std::nullopt;
}

std::optional<Place> DrivePlaces::FindOnItsWay(SlotIndex slot) const {
  const Entry& entry = entries_[slot];
  const bool on_its_way = entry.taken && !entry.holds && !entry.forgotten;
  return on_its_way ? std::optional(entry.place) : std::nullopt;
}

std::vector<SlotIndex> DrivePlaces::HeldBy(std::uint32_t drive) const {
  std::vector<SlotIndex> held;
  for (SlotIndex slot = 0; slot < entries_.size(); ++slot) {
    const Entry& entry = entries_[slot];
    if (entry.taken && !entry.forgotten && entry.place.drive == drive) held.push_back(slot);
  }
  return held;
}

void DrivePlaces::Hasten(SlotIndex slot) {
  if (FindOnItsWay(slot).has_value()) entries_[slot].hastened = true;
}

std::optional<Place> DrivePlaces::FindHastened(SlotIndex slot) const {
  return entries_[slot].hastened ? FindOnItsWay(slot) : std::nullopt;
}

Place DrivePlaces::Take(SlotIndex slot, std::uint32_t drive) {
  SLUICE_CHECK(!entries_[slot].taken, "a slot has one place at a time");
  std::deque<SlotIndex>& free = free_[drive];
  const Place place{.drive = drive, .slot = free.back()};
  free.pop_back();
  entries_[slot] = Entry{.place = place, .users = 1, .taken = true};
  return place;
}

bool DrivePlaces::Retire(SlotIndex slot) { return !std::exchange(entries_[slot].retired, true); }

void DrivePlaces::RemoveUser(SlotIndex slot) {
  Entry& entry = entries_[slot];
  const bool in_use = --entry.users > 0;
  if (entry.forgotten && !in_use) GiveBack(slot);
}

void DrivePlaces::Forget(SlotIndex slot) {
  Entry& entry = entries_[slot];
  entry.forgotten = entry.taken;
  if (entry.forgotten && entry.users == 0) GiveBack(slot);
}

void DrivePlaces::GiveBack(SlotIndex slot) {
  const Entry entry = std::exchange(entries_[slot], Entry{});
  if (entry.retired) return;
  std::deque<SlotIndex>& free = free_[entry.place.drive];
  if (entry.doubted) {
    free.push_front(entry.place.slot);
  } else {
    free.push_back(entry.place.slot);
  }
}

}  // namespace sluice::io
