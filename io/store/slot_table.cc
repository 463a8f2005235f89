#include "io/store/slot_table.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/medium_fault.h"

namespace sluice::io {

std::string ToString(const PageIdentity& identity) {
  return fmt::format(
      "segment {} page {} generation {}", identity.segment, identity.page, identity.generation);
}

SlotTable::SlotTable(SlotIndex slots, SlotIndex places)
    : hastened_(places), places_(slots, kNoPlace), entries_(places) {
  // Low places are taken first, so that pages written in a row are neighbours.
  for (SlotIndex place = places; place-- > 0;) free_.push_back(place);
}

const SlotTable::Entry* SlotTable::Find(SlotIndex slot) const {
  return places_[slot] == kNoPlace ? nullptr : &entries_[places_[slot]];
}

SlotTable::Entry* SlotTable::Find(SlotIndex slot) {
  return places_[slot] == kNoPlace ? nullptr : &entries_[places_[slot]];
}

void SlotTable::FreePlace(SlotIndex slot, TakenNext when) {
  const SlotIndex place = std::exchange(places_[slot], kNoPlace);
  const Entry entry = std::exchange(entries_[place], Entry{});
  if (entry.retired) return;
  when == TakenNext::kFirst ? free_.push_back(place) : free_.push_front(place);
}

absl::StatusOr<SlotIndex> SlotTable::BeginWrite(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  if (const Entry* entry = Find(slot)) {
    if (entry->in_use()) {
      return absl::FailedPreconditionError(
          base::ToAbsl(fmt::format("slot {}: written while a {} of it is in flight",
                                   slot,
                                   entry->writing() ? "write" : "read")));
    }
    FreePlace(slot, TakenNext::kFirst);
  }
  if (free_.empty()) return NoPlace(slot);
  const SlotIndex place = free_.back();
  free_.pop_back();
  places_[slot] = place;
  entries_[place].state = State::kWriting;
  return place;
}

absl::Status SlotTable::NoPlace(SlotIndex slot) const {
  std::string text = fmt::format("slot {}: the drive has no room", slot);
  if (retired_ > 0) text += fmt::format(", {} places lost a page and are used no more", retired_);
  return absl::ResourceExhaustedError(base::ToAbsl(text));
}

SlotTable::Entry& SlotTable::EndingWrite(SlotIndex slot) {
  Entry* const entry = Find(slot);
  SLUICE_CHECK(entry != nullptr && entry->writing(), "a slot has one write at a time");
  hastened_[places_[slot]].store(false, std::memory_order_relaxed);
  return *entry;
}

void SlotTable::EndWrite(SlotIndex slot, const PageIdentity& identity, std::uint64_t checksum) {
  base::MutexLock lock(mutex_);
  Entry& entry = EndingWrite(slot);
  entry.state = State::kHolds;
  entry.identity = identity;
  entry.checksum = checksum;
  if (entry.forgotten) FreePlace(slot, TakenNext::kFirst);
}

void SlotTable::AbandonWrite(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  EndingWrite(slot);
  FreePlace(slot, TakenNext::kLast);
}

std::optional<SlotIndex> SlotTable::Hasten(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  const Entry* entry = Find(slot);
  if (entry == nullptr || !entry->writing()) return std::nullopt;
  hastened_[places_[slot]].store(true, std::memory_order_relaxed);
  return places_[slot];
}

absl::StatusOr<SlotTable::StoredPage> SlotTable::BeginRead(SlotIndex slot,
                                                           const PageIdentity& identity) {
  base::MutexLock lock(mutex_);
  Entry* const entry = Find(slot);
  if (entry == nullptr || !entry->holds()) {
    return absl::NotFoundError(base::ToAbsl(
        fmt::format("slot {}: holds no acknowledged page, wanted {}", slot, ToString(identity))));
  }
  if (entry->identity != identity) {
    return MarkWithoutIo(absl::DataLossError(base::ToAbsl(fmt::format(
        "slot {}: wanted {}, holds {}", slot, ToString(identity), ToString(entry->identity)))));
  }
  ++entry->readers;
  return StoredPage{.place = places_[slot], .checksum = entry->checksum};
}

void SlotTable::EndRead(SlotIndex slot, ReadEnd end) {
  base::MutexLock lock(mutex_);
  Entry* const entry = Find(slot);
  SLUICE_CHECK(entry != nullptr && entry->readers > 0, "a read that ends has begun");
  const bool lost = end == ReadEnd::kPlaceLostPage;
  if (lost && !std::exchange(entry->retired, true)) ++retired_;
  const bool in_use = --entry->readers > 0;
  if (entry->forgotten && !in_use) FreePlace(slot, TakenNext::kFirst);
}

absl::StatusOr<SlotIndex> SlotTable::FindPlace(SlotIndex slot) const {
  base::MutexLock lock(mutex_);
  const Entry* entry = Find(slot);
  if (entry != nullptr && entry->holds()) return places_[slot];
  return absl::NotFoundError(
      base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
}

void SlotTable::Forget(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  Entry* const entry = Find(slot);
  if (entry == nullptr) return;
  entry->forgotten = true;
  if (!entry->in_use()) FreePlace(slot, TakenNext::kFirst);
}

SlotIndex SlotTable::retired() const {
  base::MutexLock lock(mutex_);
  return retired_;
}

}  // namespace sluice::io
