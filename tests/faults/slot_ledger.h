#pragma once

#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "io/page_store.h"
#include "sluice/policy.h"

namespace sluice::faults {

/// Who has which slot of the store, so that a fault knows whom it strikes and a check knows who may
/// have been harmed. Threads: any.
class SlotLedger {
 public:
  explicit SlotLedger(io::SlotIndex slots) : entries_(slots) {}

  /// `page`: what the slot is to hold, as its user counts pages.
  void BeginWrite(io::SlotIndex slot,
                  const io::PageIdentity& identity,
                  PageIndex page,
                  bool reproducible);
  void BeginRead(io::SlotIndex slot);
  /// Of a read or write.
  void End(io::SlotIndex slot);
  void Forget(io::SlotIndex slot);

  /// What the slot holds, or will once its write is done, cannot be relied on any more.
  void Harm(io::SlotIndex slot);
  bool Harmed(const io::PageIdentity& identity) const;

  bool Reproducible(io::SlotIndex slot) const;
  /// The page that was written to the slot last.
  PageIndex PageIn(io::SlotIndex slot) const;
  /// Another slot that holds a page and has no I/O in flight; `slot` itself when there is none.
  io::SlotIndex OtherAtRest(io::SlotIndex slot) const;

 private:
  struct Entry {
    io::PageIdentity identity;
    int in_flight = 0;
    bool holds = false;
    bool reproducible = false;
    PageIndex page = 0;
  };

  mutable base::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<io::PageIdentity> harmed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::faults
