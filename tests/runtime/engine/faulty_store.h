#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "io/store/page_store.h"

namespace sluice::testing {

/// Faults of a store, and the requests that it got. Threads: any.
class StoreFaults {
 public:
  /// Makes reads (writes) fail with this status until it is OK again.
  void FailReads(absl::Status status);
  /// Makes reads of one segment's pages alone fail.
  void FailReadsOf(std::uint64_t segment, absl::Status status);
  void FailWrites(absl::Status status);
  /// Fills the disk up: once `slots` slots have been written, writes of other slots fail.
  void FailNewSlots(std::size_t slots, absl::Status status);
  /// Slots that have been written.
  std::size_t slots_written() const;
  /// Makes stats() say that pages are copied on write, for this reason.
  void SayCopied(std::string reason);
  /// Makes the mapping of slots fail, for this reason.
  void RefuseMapping(absl::Status status);
  /// Holds completions until Release.
  void Hold();
  void Release();
  /// Blocks until `count` completions wait.
  void WaitForHeld(std::size_t count);
  /// Blocks until each request has been answered. REQUIRES: none is held.
  void WaitForNoneInFlight();

  /// Pages that were to be written, in order, and those among them that were hastened.
  std::vector<io::PageIdentity> written() const;
  std::vector<io::PageIdentity> hastened() const;
  /// Blocks until the page is hastened; false if that does not happen.
  bool WaitForHastened(const io::PageIdentity& identity);

  /// A store under these faults, which outlive it.
  std::unique_ptr<io::PageStore> Wrap(std::unique_ptr<io::PageStore> store);

 private:
  friend class FaultyStore;
  /// Begins a request. Returns the status that it fails with.
  absl::Status BeginRead(const io::PageIdentity& identity);
  absl::Status BeginWrite(io::SlotIndex slot);
  absl::Status MappingFault() const;
  void NoteWrite(io::SlotIndex slot, const io::PageIdentity& identity);
  void NoteHastened(io::SlotIndex slot);
  io::PageStoreStats Change(io::PageStoreStats stats) const;
  void Finish(io::DoneFn done, absl::Status status);
  void Answer(io::DoneFn done, absl::Status status);

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  absl::Status read_fault_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> read_segment_ ABSL_GUARDED_BY(mutex_);
  absl::Status write_fault_ ABSL_GUARDED_BY(mutex_);
  absl::Status mapping_fault_ ABSL_GUARDED_BY(mutex_);
  absl::Status new_slot_fault_ ABSL_GUARDED_BY(mutex_);
  std::size_t slots_max_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<io::SlotIndex> used_ ABSL_GUARDED_BY(mutex_);  ///< slots that have been written
  std::string copied_reason_ ABSL_GUARDED_BY(mutex_);
  std::map<io::SlotIndex, io::PageIdentity> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<io::PageIdentity> written_ ABSL_GUARDED_BY(mutex_);
  std::vector<io::PageIdentity> hastened_ ABSL_GUARDED_BY(mutex_);
  std::size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::testing
