#include "tests/faults/slot_ledger.h"

#include <algorithm>

namespace sluice::faults {

void SlotLedger::BeginWrite(io::SlotIndex slot,
                            const io::PageIdentity& identity,
                            PageIndex page,
                            bool reproducible) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[slot];
  entry.page = page;
  entry.identity = identity;
  entry.reproducible = reproducible;
  entry.holds = true;
  ++entry.in_flight;
}

void SlotLedger::BeginRead(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  ++entries_[slot].in_flight;
}

void SlotLedger::End(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  --entries_[slot].in_flight;
}

void SlotLedger::Forget(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  entries_[slot].holds = false;
}

void SlotLedger::Harm(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  harmed_.push_back(entries_[slot].identity);
}

bool SlotLedger::Harmed(const io::PageIdentity& identity) const {
  base::MutexLock lock(mutex_);
  return std::find(harmed_.begin(), harmed_.end(), identity) != harmed_.end();
}

bool SlotLedger::Reproducible(io::SlotIndex slot) const {
  base::MutexLock lock(mutex_);
  return entries_[slot].reproducible;
}

PageIndex SlotLedger::PageIn(io::SlotIndex slot) const {
  base::MutexLock lock(mutex_);
  return entries_[slot].page;
}

io::SlotIndex SlotLedger::OtherAtRest(io::SlotIndex slot) const {
  base::MutexLock lock(mutex_);
  for (io::SlotIndex other = 0; other < entries_.size(); ++other) {
    const Entry& entry = entries_[other];
    if (other != slot && entry.holds && entry.in_flight == 0) return other;
  }
  return slot;
}

}  // namespace sluice::faults
