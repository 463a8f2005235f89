#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// Place of each slot's page in the files, and content of it: the identity and checksum of a page
/// whose write was acknowledged, or nothing. A place is free again after the
/// last operation that uses it, unless it lost a page: then it is retired. The table lives in
/// memory only, so nothing that happens to the files can change it.
/// Threads: any.
class SlotTable {
 public:
  /// Slots share the places. A write fails if there are fewer places than slots, and all hold
  /// pages.
  SlotTable(SlotIndex slots, SlotIndex places);

  /// The place for the slot's next page; the slot holds nothing until EndWrite. Errors:
  /// FailedPrecondition (a write or read of it is in flight: the caller overwrites what it is still
  /// using), ResourceExhausted (no place is free).
  absl::StatusOr<SlotIndex> BeginWrite(SlotIndex slot);
  /// Records the page, unless the slot was forgotten meanwhile.
  void EndWrite(SlotIndex slot, const PageIdentity& identity, std::uint64_t checksum);
  /// Ends a write whose place refused the page. The slot holds nothing, and other places are taken
  /// before this one.
  void AbandonWrite(SlotIndex slot);

  struct StoredPage {
    SlotIndex place = 0;
    std::uint64_t checksum = 0;
  };
  /// Place of the page, and the checksum that `identity` must have. Errors: NotFound (nothing
  /// acknowledged), DataLoss (the slot holds another page).
  absl::StatusOr<StoredPage> BeginRead(SlotIndex slot, const PageIdentity& identity);
  enum class ReadEnd : std::uint8_t { kPlaceIsGood, kPlaceLostPage };
  void EndRead(SlotIndex slot, ReadEnd end);
  /// The place of the slot's page. Errors: NotFound (nothing acknowledged).
  absl::StatusOr<SlotIndex> FindPlace(SlotIndex slot) const;

  void Forget(SlotIndex slot);

  /// Hastens the write of the slot. Returns the place that it goes to; none if there is no write.
  std::optional<SlotIndex> Hasten(SlotIndex slot);
  /// Whether somebody waits for the write of the place, until the write ends.
  const std::atomic<bool>& hastened(SlotIndex place) const { return hastened_[place]; }

  /// Number of places that lost a page and are used no more.
  SlotIndex retired() const;

 private:
  enum class State : std::uint8_t { kFree, kWriting, kHolds };
  struct Entry {
    PageIdentity identity;
    std::uint64_t checksum = 0;
    std::uint32_t readers = 0;
    State state = State::kFree;
    bool forgotten = false;
    bool retired = false;

    bool writing() const { return state == State::kWriting; }
    bool holds() const { return state == State::kHolds && !forgotten; }
    bool in_use() const { return writing() || readers > 0; }
  };
  enum class TakenNext : std::uint8_t { kFirst, kLast };

  static constexpr SlotIndex kNoPlace = std::numeric_limits<SlotIndex>::max();

  /// Null if the slot has no place.
  const Entry* Find(SlotIndex slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* Find(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreePlace(SlotIndex slot, TakenNext when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry& EndingWrite(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoPlace(SlotIndex slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  std::vector<std::atomic<bool>> hastened_;  ///< changed under the lock, read without it
  std::vector<SlotIndex> places_ ABSL_GUARDED_BY(mutex_);  ///< place of each slot, or kNoPlace
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);     ///< page of each place
  std::deque<SlotIndex> free_ ABSL_GUARDED_BY(mutex_);     ///< free places; the last is taken first
  SlotIndex retired_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// "segment 3 page 1 generation 7".
std::string ToString(const PageIdentity& identity);

}  // namespace sluice::io
