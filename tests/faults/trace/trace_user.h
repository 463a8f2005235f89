#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "runtime/core/actions.h"
#include "tests/faults/trace/pager.h"
#include "tests/faults/trace/slot_ledger.h"
#include "tests/faults/trace/tensor_model.h"
#include "tests/faults/trace/trace.h"
#include "tests/faults/trace/trace_run.h"
#include "tests/faults/virtual/executor.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::faults {

/// The user of a trace's tensors. It asks for leases, compares every byte of each lease with the
/// model, and writes. It checks that each answer of the core has a cause. The verdict holds the
/// first violation. Threads: that of the executor.
class TraceUser final : public PagerUser {
 public:
  /// `last_tier`: that of the store.
  TraceUser(const Trace& trace,
            core::TierIndex last_tier,
            const SlotLedger& ledger,
            core::Verdict* verdict);

  /// Creates the tensors. `pager` and `executor` outlive all later calls.
  void Begin(Pager* pager, Executor* executor);
  /// Whether the step can be taken now: one op at a time on each tensor, and a lane for it.
  bool MayPerform(const TraceStep& step) const;
  void Perform(const TraceStep& step);
  /// Whether no op of the trace is under way.
  bool idle() const;
  /// Ends all writes.
  void Stop() { stopped_ = true; }

  TensorModel& model() { return model_; }
  /// Events so far, as this user sees them.
  RunOutcome& outcome() { return outcome_; }

  void OnGranted(const core::GrantTicket& grant) override;
  void OnFailed(const core::FailTicket& fail) override;
  void OnFreed(const core::PagesFreed& freed) override;
  void OnLost(PageIndex page) override;
  void Reproduce(PageIndex page, std::span<std::byte> frame) override;
  void OnStoreFailure(const StoreFailure& failure) override;
  void AfterStoreFailure(const StoreFailure& failure) override;
  void OnFenced(const std::vector<PageIndex>& only) override;

 private:
  /// Ops that wait or run at a time, each in a lane of its own.
  static constexpr std::size_t kLanes = 4;

  struct Access {
    PageIndex page;
    core::PageMode mode;
    bool changes;
    core::FrameIndex frame = core::kNoFrame;
  };
  /// One AcquireAll that is waited for or holds its leases.
  struct OpenTicket {
    std::size_t lane = 0;
    std::vector<Access> accesses;
  };

  void Acquire(std::vector<Access> accesses);
  void AddAccess(ModelTensor& tensor, core::PageMode mode, std::vector<Access>* accesses);
  void Discard(ModelTensor& tensor);
  void Free(ModelTensor& tensor);
  void Create(const ModelTensor& tensor);
  void Prefetch(const ModelTensor& tensor);
  void BeginLease(const Access& access);
  void EndLease(const Access& access);
  void Release(core::TicketNumber number);
  void Close(core::TicketNumber number);
  void CheckBytes(const Access& access);
  void CheckFailure(const core::FailTicket& fail, const OpenTicket& ticket);

  const core::TierIndex last_tier_;
  const SlotLedger& ledger_;
  core::Verdict& verdict_;
  Pager* pager_ = nullptr;
  Executor* executor_ = nullptr;
  TensorModel model_;
  RunOutcome outcome_;
  std::map<core::TicketNumber, OpenTicket> open_;
  std::array<bool, kLanes> lane_busy_{};
  std::set<PageIndex> named_;  ///< pages that a failed drive named as its own
  core::TicketNumber next_ticket_ = 1;
  bool stopped_ = false;
};

}  // namespace sluice::faults
