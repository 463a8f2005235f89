#pragma once

#include <optional>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Outcome of an attempt to bring a page nearer: the page is there, is under way, or waits.
enum class Progress { kReady, kInFlight, kBlocked };

/// Begins tasks: those that bring a page one step nearer to where it is wanted, and the copies of
/// evictions. Threads: externally synchronised.
class Movement {
 public:
  explicit Movement(ResidencyMachine& machine) : m_(machine) {}

  /// Brings a page one step nearer to where it is wanted.
  Progress Advance(PageIndex index, const Goal& want, const Claim& claim);
  /// Starts a copy from a valid frame to the task's target frame, which is taken.
  void StartCopyTask(PageIndex index, Task task);
  /// Returns whether the link takes no more copies for the purpose now.
  bool LinkFull(TierIndex source, TierIndex target, Purpose purpose) const;

 private:
  Progress AdvanceResident(PageIndex index, const Goal& want, const Claim& claim);
  Progress AdvanceWithoutSource(PageIndex index, const Goal& want, const Claim& claim);
  std::optional<FrameIndex> TakeHopFrame(PageIndex index,
                                         TierIndex hop,
                                         LinkDirection direction,
                                         const Goal& want,
                                         const Claim& claim);
  Progress StartHop(PageIndex index, TierIndex source, const Goal& want, const Claim& claim);
  Progress StartFillAt(
      PageIndex index, TierIndex tier, FillKind kind, const Goal& want, const Claim& claim);
  TaskNumber AddTask(const Task& task);

  ResidencyMachine& m_;
  TaskNumber next_task_ = 1;
};

}  // namespace sluice::core
