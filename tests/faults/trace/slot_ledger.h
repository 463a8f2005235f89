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

/// Who has which slot of the store, and in which place of a drive, so that a fault knows whom it
/// strikes and a check knows who may have been harmed. Threads: any.
class SlotLedger {
 public:
  explicit SlotLedger(io::SlotIndex slots) : entries_(slots) {}

  // What the user of the store does.
  /// `page`: what the slot is to hold, as its user counts pages.
  void BeginWrite(io::SlotIndex slot,
                  const io::PageIdentity& identity,
                  PageIndex page,
                  bool reproducible);
  void BeginRead(io::SlotIndex slot);
  /// Of a read or write.
  void End(io::SlotIndex slot);
  void Forget(io::SlotIndex slot);

  // What the store does.
  /// The slot's page is written there now.
  void Put(io::SlotIndex slot, const Place& place);
  /// The slot's place lost its page: nothing may be written there.
  void NoteLost(io::SlotIndex slot);
  /// Whether the drive has, or is to have, the slot's page, and somebody wants that.
  bool Holds(io::SlotIndex slot, std::uint32_t drive) const;
  /// Writes that went to another place than the one where they had begun.
  std::uint64_t moved() const;
  /// Something that a store must never do.
  void NoteBroken(const std::string& rule);
  /// The first such thing; empty: nothing.
  std::string broken() const;

  // What a fault does and asks.
  /// What the place holds, or will once its write is done, cannot be relied on any more.
  void Harm(const Place& place);
  bool Harmed(const io::PageIdentity& identity) const;
  bool Reproducible(const Place& place) const;
  /// The page that was written there last.
  PageIndex PageIn(const Place& place) const;
  /// Another place of the drive that holds a page and has no I/O in flight; `place` itself when
  /// there is none.
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
