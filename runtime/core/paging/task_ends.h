#pragma once

#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// News of tasks: pages that have arrived, are under way, or have failed to come. Threads:
/// externally synchronised.
class TaskEnds {
 public:
  explicit TaskEnds(ResidencyMachine& machine) : m_(machine) {}

  void On(const TaskDone& event);
  void On(const TaskFailed& event);
  void On(const TaskUnderWay& event);

 private:
  Task TakeTask(TaskNumber number);
  void FinishMap(const Task& task);
  void EndCopy(const Task& task);
  void FinishCopy(const Task& task);
  void FinishFill(const Task& task);
  void LeaveSource(PageIndex index, TierIndex source);
  void Arrive(PageIndex index, const Task& task, CopyState state);
  bool MakesAgain(const Task& task, FailureKind kind);
  bool KeepsRefused(Page& p);
  void AbandonTarget(const Task& task);
  void LoseSource(PageIndex index, TierIndex source);
  void LoseContent(PageIndex index, TierIndex tier);
  void LoseWritten(PageIndex index, TierIndex tier);
  void NoteBringFailure(const Task& task);
  void FailWaiting(PageIndex index, TicketFailure reason, TierIndex tier);

  ResidencyMachine& m_;
};

}  // namespace sluice::core
