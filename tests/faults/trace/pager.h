#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "io/drives/drive_places.h"
#include "runtime/core/core.h"
#include "sluice/policy.h"
#include "tests/faults/trace/slot_ledger.h"
#include "tests/faults/virtual/executor.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::faults {

/// A read or write of the store that did not succeed.
struct StoreFailure {
  bool read = false;
  io::PageIdentity identity;
  PageIndex page = core::kNoPage;
  absl::StatusCode code = absl::StatusCode::kOk;
};

/// Owner of the pages. It hears the core's answers and knows which pages callbacks reproduce.
class PagerUser {
 public:
  virtual void OnGranted(const core::GrantTicket& grant) = 0;
  virtual void OnFailed(const core::FailTicket& fail) = 0;
  virtual void OnFreed(const core::PagesFreed& freed) = 0;
  virtual void OnLost(PageIndex page) = 0;
  virtual void Reproduce(PageIndex page, std::span<std::byte> frame) = 0;
  /// Called before the core hears of the failure.
  virtual void OnStoreFailure(const StoreFailure& failure) = 0;
  /// Called after the core has heard of the failure.
  virtual void AfterStoreFailure(const StoreFailure& failure) = 0;
  /// Called when a drive has failed. `only`: pages that no other place has.
  virtual void OnFenced(const std::vector<PageIndex>& only) = 0;

 protected:
  ~PagerUser() = default;
};

struct PagerOptions {
  /// Frames of each tier, fastest first; the last tier is the store.
  std::vector<core::FrameIndex> frames = {8, 48};
  std::uint64_t page_bytes = 4096;
  std::uint32_t copies_in_flight_max = 6;
};

/// Carries out a core's orders with real bytes. It copies between memory and a page store by the
/// rules of the runtime's data mover, without its threads. Use of a frame that a task still uses is
/// a violation. Threads: that of the executor.
class Pager {
 public:
  /// Parts outlive the pager, and the store is closed before it.
  struct Parts {
    io::PageStore* store = nullptr;
    Executor* executor = nullptr;
    SlotLedger* ledger = nullptr;
    PagerUser* user = nullptr;
    core::Verdict* verdict = nullptr;
  };
  Pager(const PagerOptions& options, const Parts& parts);

  /// Gives the core an event and carries out the actions. Inside a PagerUser's call, they follow
  /// the end of the call.
  void Send(core::Event event);
  /// Reports a failed drive to its user, then to the core.
  void Fence(const io::FencedDrive& drive);
  /// Ends all reports to the core. Tasks in flight end without consequences.
  void Stop() { stopped_ = true; }

  std::span<std::byte> Frame(core::TierIndex tier, core::FrameIndex frame);
  /// All frames of a tier in memory. Pages enter the store from the last such tier.
  std::span<std::byte> Frames(core::TierIndex tier);
  /// Checks the frame of a lease that begins: no task may write it, nor read a frame to be written.
  void CheckLease(core::TierIndex tier, core::FrameIndex frame, core::PageMode mode);

  /// Operations of the store that have not ended for this thread.
  std::uint64_t store_in_flight() const { return started_ - finished_; }
  /// Operations of the store that were begun, and calls of their `done`.
  std::uint64_t started() const { return started_; }
  std::uint64_t done_calls() const { return done_calls_.load(); }
  const core::Core& core() const { return *core_; }

 private:
  struct FrameUse {
    int readers = 0;
    bool writer = false;
  };
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  struct MemoryTier {
    std::unique_ptr<std::byte, Free> bytes;
    std::vector<FrameUse> uses;
  };
  struct Segment {
    PageIndex first_page = 0;
    bool reproducible = false;
  };

  void Handle(const core::Event& event);
  void Perform(const core::StartCopy& copy);
  void Perform(const core::HastenCopy& hasten);
  void Perform(const core::StartFill& fill);
  void Perform(const core::DropFrame& drop);
  void Perform(const core::LosePage& lose) { parts_.user->OnLost(lose.page); }
  void Perform(const core::GrantTicket& grant) { parts_.user->OnGranted(grant); }
  void Perform(const core::FailTicket& fail) { parts_.user->OnFailed(fail); }
  void Perform(const core::PagesFreed& freed) { parts_.user->OnFreed(freed); }
  void Perform(const core::FenceTier&) {}
  void Perform(const core::SegmentCreated&) {}
  template <typename Other>
  void Perform(const Other& other) {
    parts_.verdict->Fail("not expected: " + core::ToString(core::Action(other)));
  }

  bool IsStore(core::TierIndex tier) const { return tier == memory_.size(); }
  io::PageIdentity IdentityOf(const core::StartCopy& copy) const;
  void StartRead(const core::StartCopy& copy);
  void StartWrite(const core::StartCopy& copy);
  void StartMemoryCopy(const core::StartCopy& copy);
  io::DoneFn Done(const core::StartCopy& copy);
  void Finish(const core::StartCopy& copy, const absl::Status& status);
  void Fail(const core::StartCopy& copy, const absl::Status& status);
  void ProbeFailedWrite(const core::StartCopy& copy, absl::StatusCode code);
  void Use(const core::StartCopy& copy);
  void Unuse(const core::StartCopy& copy);
  void UseToWrite(core::TierIndex tier, core::FrameIndex frame);
  void UseToRead(core::TierIndex tier, core::FrameIndex frame);

  const PagerOptions options_;
  const Parts parts_;
  std::unique_ptr<core::Core> core_;
  std::vector<MemoryTier> memory_;
  std::unique_ptr<std::byte, Free> scratch_;
  std::map<core::SegmentIndex, Segment> segments_;
  std::deque<core::Event> events_;
  bool handling_ = false;
  bool stopped_ = false;
  std::uint64_t handled_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t finished_ = 0;
  std::atomic<std::uint64_t> done_calls_{0};
};

}  // namespace sluice::faults
