#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/core.h"

namespace sluice::sim {

/// A page on a link, while it had its path to itself.
struct SimTransfer {
  std::size_t path = 0;
  core::TaskNumber task = 0;
  core::Direction direction = core::Direction::kIn;
  std::uint64_t bytes = 0;
  double begin_s = 0;
  double end_s = 0;
};

/// An op that has run.
struct SimOpRun {
  std::uint32_t op = 0;
  double ready_s = 0;  ///< when everything before it had ended
  double begin_s = 0;
  double end_s = 0;
};

/// Sees what happens in a simulation, in virtual time. Override what is of interest.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  /// Before the first event. The core outlives the last call.
  virtual void OnStart(const core::Core&) {}
  /// What goes into the core, before it does, and what comes out of it.
  virtual void OnEvent(const core::Event&, double /*seconds*/) {}
  virtual void OnAction(const core::Action&, double /*seconds*/) {}
  /// All actions that follow from the events told since the last call have been told: the core
  /// takes tasks that end at once together.
  virtual void OnEventDone() {}
  /// In each direction of a path by rising time. The copy is complete when the latency has passed.
  virtual void OnTransfer(std::size_t /*link*/, const SimTransfer&) {}
  virtual void OnOp(const SimOpRun&) {}
};

}  // namespace sluice::sim
