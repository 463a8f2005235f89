#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/store/page_store.h"
#include "sluice/policy.h"

namespace sluice::faults {

/// Bytes of a page in the files of one drive.
struct Place {
  std::uint32_t drive = 0;
  std::uint64_t page = 0;  ///< offset in pages
};

/// Owner and place of each slot of the store. A fault looks up which page it strikes, and a check
/// which pages may have been harmed. Threads: any.
class SlotLedger {
 public:
  explicit SlotLedger(io::SlotIndex slots) : entries_(slots) {}

  // Calls of the store's user.
  /// `page`: page that the slot is to hold, as the user counts pages.
  void BeginWrite(io::SlotIndex slot,
                  const io::PageIdentity& identity,
                  PageIndex page,
                  bool reproducible);
  void BeginRead(io::SlotIndex slot);
  /// Ends a read or write of the slot.
  void End(io::SlotIndex slot);
  void Forget(io::SlotIndex slot);

  // Calls of the store.
  /// Notes that the slot's page is written to `place` now.
  void Put(io::SlotIndex slot, const Place& place);
  /// Notes that the slot's place has lost its page. Nothing may be written there.
  void NoteLost(io::SlotIndex slot);
  /// Whether the drive has, or is to have, a page of the slot that somebody wants.
  bool Holds(io::SlotIndex slot, std::uint32_t drive) const;
  /// Number of writes that ended in another place than the one where they began.
  std::uint64_t moved() const;
  /// Notes that the store did what it must never do.
  void NoteBroken(const std::string& rule);
  /// The first rule that the store broke; empty: none.
  std::string broken() const;

  // Calls of a fault.
  /// Makes the content of the place unreliable, now and after a write in flight.
  void Harm(const Place& place);
  bool Harmed(const io::PageIdentity& identity) const;
  bool Reproducible(const Place& place) const;
  /// Page that was written last to the place.
  PageIndex PageIn(const Place& place) const;
  /// Another place of the drive that holds a page and has no I/O in flight; `place` itself if there
  /// is none.
  Place OtherAtRest(const Place& place) const;

 private:
  struct Entry {
    io::PageIdentity identity;
    int in_flight = 0;
    bool holds = false;
    bool reproducible = false;
    PageIndex page = 0;
    std::optional<Place> place;  ///< none until it is known
  };
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  static Key KeyOf(const Place& place) { return {place.drive, place.page}; }

  Entry At(const Place& place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(io::SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, io::SlotIndex> slots_ ABSL_GUARDED_BY(mutex_);  ///< slot of each page
  std::set<Key> lost_ ABSL_GUARDED_BY(mutex_);                  ///< places that lost a page
  std::vector<io::PageIdentity> harmed_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t moved_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::faults
