#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/core.h"

namespace sluice::sim {

/// A page on a link, while it had its path to itself.
struct SimTransfer {
  std::size_t path = 0;
  core::TaskNumber task = 0;
  core::LinkDirection direction = core::LinkDirection::kIn;
  std::uint64_t bytes = 0;
  double begin_s = 0;
  double end_s = 0;
};

/// An op that has run.
struct SimOpRun {
  std::uint32_t op = 0;
  double ready_s = 0;  ///< time at which everything before the op had ended
  double begin_s = 0;
  double end_s = 0;
};

/// Observes a simulation in virtual time. Subclasses override the calls of interest.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  /// Called before the first event. The core outlives the last call.
  virtual void OnStart(const core::Core&) {}
  /// Called with each event before it goes into the core, and with each action that comes out.
  virtual void OnEvent(const core::Event&, double /*seconds*/) {}
  virtual void OnAction(const core::Action&, double /*seconds*/) {}
  /// Called when all actions have been told that follow from the events since the last call. The
  /// core takes tasks that end at once together.
  virtual void OnEventDone() {}
  /// Called with each transfer, in each direction of a path by rising time. The copy is complete
  /// when the latency has passed.
  virtual void OnTransfer(std::size_t /*link*/, const SimTransfer&) {}
  virtual void OnOp(const SimOpRun&) {}
};

}  // namespace sluice::sim
