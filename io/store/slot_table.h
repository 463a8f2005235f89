#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "io/store/page_store.h"

namespace sluice::io {

/// Content of each slot: the identity and checksum of the page whose write was acknowledged, or
/// nothing. The table lives in memory only, so nothing that happens to the file can change it.
/// Threads: any.
class SlotTable {
 public:
  explicit SlotTable(SlotIndex slots) : hastened_(slots), entries_(slots) {}

  /// The slot holds nothing until EndWrite. Errors: FailedPrecondition (a write or read of it is
  /// in flight: the caller overwrites what it is still using).
  absl::Status BeginWrite(SlotIndex slot);
  /// Records the page, unless the slot was forgotten meanwhile.
  void EndWrite(SlotIndex slot, const PageIdentity& identity, std::uint64_t checksum);
  /// The slot holds nothing.
  void AbandonWrite(SlotIndex slot);

  /// The checksum that `identity` must have in the slot. Errors: NotFound (nothing acknowledged),
  /// DataLoss (the slot holds another page).
  absl::StatusOr<std::uint64_t> BeginRead(SlotIndex slot, const PageIdentity& identity);
  void EndRead(SlotIndex slot);
  /// Errors: NotFound (nothing acknowledged).
  absl::Status CheckHolds(SlotIndex slot) const;

  void Forget(SlotIndex slot);

  /// Somebody waits for the write of the slot; nothing where there is none.
  void Hasten(SlotIndex slot);
  /// True if somebody waits for the write, until it ends.
  const std::atomic<bool>& hastened(SlotIndex slot) const { return hastened_[slot]; }

 private:
  enum class State : std::uint8_t { kEmpty, kWriting, kWritingForgotten, kHolds };
  struct Entry {
    PageIdentity identity;
    std::uint64_t checksum = 0;
    std::uint32_t readers = 0;
    State state = State::kEmpty;
  };

  bool IsWritten(const Entry& entry) const {
    return entry.state == State::kWriting || entry.state == State::kWritingForgotten;
  }

  mutable base::Mutex mutex_;
  std::vector<std::atomic<bool>> hastened_;  ///< changed under the lock, read without it
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

/// "segment 3 page 1 generation 7".
std::string ToString(const PageIdentity& identity);

}  // namespace sluice::io
