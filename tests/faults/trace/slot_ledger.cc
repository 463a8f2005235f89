#include "tests/faults/trace/slot_ledger.h"

#include <algorithm>

#include "fmt/format.h"

namespace sluice::faults {

void SlotLedger::BeginWrite(io::SlotIndex slot,
                            const io::PageIdentity& identity,
                            PageIndex page,
                            bool reproducible) {
  base::MutexLock lock(mutex_);
  Leave(slot);
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

// --- places -----------------------------------------------------------------------------------

void SlotLedger::Put(io::SlotIndex slot, const Place& place) {
  base::MutexLock lock(mutex_);
  if (broken_.empty() && lost_.contains(KeyOf(place))) {
    broken_ =
        fmt::format("place {} of drive {} lost a page and is written", place.page, place.drive);
  }
  Entry& entry = entries_[slot];
  slots_.erase(KeyOf(place));
  if (!entry.holds) return;
  if (entry.place.has_value()) ++moved_;
  Leave(slot);
  entry.place = place;
  slots_[KeyOf(place)] = slot;
}

void SlotLedger::NoteLost(io::SlotIndex slot) {
  base::MutexLock lock(mutex_);
  const Entry& entry = entries_[slot];
  if (entry.place.has_value()) lost_.insert(KeyOf(*entry.place));
}

bool SlotLedger::Holds(io::SlotIndex slot, std::uint32_t drive) const {
  base::MutexLock lock(mutex_);
  const Entry& entry = entries_[slot];
  return entry.holds && entry.place.has_value() && entry.place->drive == drive;
}

/// The place may be another slot's already.
void SlotLedger::Leave(io::SlotIndex slot) {
  const std::optional<Place> place = std::exchange(entries_[slot].place, std::nullopt);
  if (!place.has_value()) return;
  const auto found = slots_.find(KeyOf(*place));
  if (found != slots_.end() && found->second == slot) slots_.erase(found);
}

SlotLedger::Entry SlotLedger::At(const Place& place) const {
  const auto found = slots_.find(KeyOf(place));
  return found == slots_.end() ? Entry{} : entries_[found->second];
}

std::uint64_t SlotLedger::moved() const {
  base::MutexLock lock(mutex_);
  return moved_;
}

void SlotLedger::NoteBroken(const std::string& rule) {
  base::MutexLock lock(mutex_);
  if (broken_.empty()) broken_ = rule;
}

std::string SlotLedger::broken() const {
  base::MutexLock lock(mutex_);
  return broken_;
}

// --- faults -----------------------------------------------------------------------------------

void SlotLedger::Harm(const Place& place) {
  base::MutexLock lock(mutex_);
  harmed_.push_back(At(place).identity);
}

bool SlotLedger::Harmed(const io::PageIdentity& identity) const {
  base::MutexLock lock(mutex_);
  return std::find(harmed_.begin(), harmed_.end(), identity) != harmed_.end();
}

bool SlotLedger::Reproducible(const Place& place) const {
  base::MutexLock lock(mutex_);
  return At(place).reproducible;
}

PageIndex SlotLedger::PageIn(const Place& place) const {
  base::MutexLock lock(mutex_);
  return At(place).page;
}

Place SlotLedger::OtherAtRest(const Place& place) const {
  base::MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    const bool at_rest = entry.holds && entry.in_flight == 0 && entry.place.has_value();
    if (!at_rest || entry.place->drive != place.drive) continue;
    if (entry.place->page != place.page) return *entry.place;
  }
  return place;
}

}  // namespace sluice::faults
