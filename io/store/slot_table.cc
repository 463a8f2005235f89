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

absl::Status SlotTable::BeginWrite(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[slot];
  const bool writing = IsWritten(entry);
  if ((writing || entry.readers > 0)) {
    return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
        "slot {}: written while a {} of it is in flight", slot, writing ? "write" : "read")));
  }
  entry.state = State::kWriting;
  return absl::OkStatus();
}

void SlotTable::EndWrite(SlotIndex slot, const PageIdentity& identity, std::uint64_t checksum) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[slot];
  const State before =
      std::exchange(entry.state, entry.state == State::kWriting ? State::kHolds : State::kEmpty);
  SLUICE_CHECK(before == State::kWriting || before == State::kWritingForgotten,
               "a slot has one write at a time");
  entry.identity = identity;
  entry.checksum = checksum;
  hastened_[slot].store(false, std::memory_order_relaxed);
}

void SlotTable::AbandonWrite(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  entries_[slot].state = State::kEmpty;
  hastened_[slot].store(false, std::memory_order_relaxed);
}

void SlotTable::Hasten(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  if (IsWritten(entries_[slot])) hastened_[slot].store(true, std::memory_order_relaxed);
}

absl::StatusOr<std::uint64_t> SlotTable::BeginRead(SlotIndex slot, const PageIdentity& identity) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[slot];
  if (entry.state != State::kHolds) {
    return absl::NotFoundError(base::ToAbsl(
        fmt::format("slot {}: holds no acknowledged page, wanted {}", slot, ToString(identity))));
  }
  if (entry.identity != identity) {
    return MarkWithoutIo(absl::DataLossError(base::ToAbsl(fmt::format(
        "slot {}: wanted {}, holds {}", slot, ToString(identity), ToString(entry.identity)))));
  }
  ++entry.readers;
  return entry.checksum;
}

void SlotTable::EndRead(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  SLUICE_CHECK(entries_[slot].readers > 0, "a read that ends has begun");
  --entries_[slot].readers;
}

absl::Status SlotTable::CheckHolds(SlotIndex slot) const {
  base::MutexLock lock(mutex_);
  if (entries_[slot].state == State::kHolds) return absl::OkStatus();
  return absl::NotFoundError(
      base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
}

void SlotTable::Forget(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  Entry& entry = entries_[slot];
  entry.state = IsWritten(entry) ? State::kWritingForgotten : State::kEmpty;
}

}  // namespace sluice::io
