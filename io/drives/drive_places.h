#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "io/store/page_store.h"

namespace sluice::io {

/// A slot of one drive.
struct Place {
  std::uint32_t drive = 0;
  SlotIndex slot = 0;
};

/// Places of the pages of a set, slot by slot, and the free slots of its drives. A place has users,
/// the operations on their way, and is given back after the last of them, unless it is retired.
/// Threads: externally synchronised.
class DrivePlaces {
 public:
  /// `shares`: the slots of each drive.
  DrivePlaces(SlotIndex slots, const std::vector<SlotIndex>& shares);

  bool HasRoom(std::uint32_t drive) const { return !free_[drive].empty(); }
  bool InUse(SlotIndex slot) const { return entries_[slot].users > 0; }
  // None of either once it was forgotten.
  std::optional<Place> FindAcknowledged(SlotIndex slot) const;
  std::optional<Place> FindOnItsWay(SlotIndex slot) const;
  /// Slots whose page is on `drive`, acknowledged or on its way there.
  std::vector<SlotIndex> HeldBy(std::uint32_t drive) const;

  /// A free slot of `drive` becomes the place, with one user. REQUIRES: HasRoom(drive), the slot
  /// has no place.
  Place Take(SlotIndex slot, std::uint32_t drive);
  /// REQUIRES: the slot has a place.
  void AddUser(SlotIndex slot) { ++entries_[slot].users; }
  /// Somebody waits for the page on its way; nothing where there is none.
  void Hasten(SlotIndex slot);
  /// FindOnItsWay, if somebody waits for the page.
  std::optional<Place> FindHastened(SlotIndex slot) const;
  /// The page that is on its way was acknowledged.
  void Acknowledge(SlotIndex slot) { entries_[slot].holds = true; }

  /// The slot's place lost its page: it is never taken for another one. False when it was retired
  /// before. REQUIRES: the slot has a place.
  bool Retire(SlotIndex slot);
  /// The slot's place refused its page: others are taken before it. REQUIRES: as Retire.
  void Doubt(SlotIndex slot) { entries_[slot].doubted = true; }

  void RemoveUser(SlotIndex slot);
  /// The slot has no place, at the latest after its last user.
  void Forget(SlotIndex slot);

 private:
  struct Entry {
    Place place;
    std::uint32_t users = 0;
    bool taken = false;
    bool forgotten = false;
    bool holds = false;  ///< its page was acknowledged
    bool hastened = false;
    bool doubted = false;
    bool retired = false;
  };

  void GiveBack(SlotIndex slot);

  std::vector<Entry> entries_;
  std::vector<std::deque<SlotIndex>> free_;  ///< free slots per drive; the last is taken first
};

}  // namespace sluice::io
