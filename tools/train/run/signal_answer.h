#pragma once

#include <string>

#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// Answers signals of a run between two pieces of its work. While it lives, the session's trainer
/// asks it. Threads: externally synchronised. Lifetime: what it refers to outlives it.
class SignalAnswer {
 public:
  SignalAnswer(TrainSession& session, Console& console, const InterruptWatch& watch);
  ~SignalAnswer();
  SignalAnswer(const SignalAnswer&) = delete;
  SignalAnswer& operator=(const SignalAnswer&) = delete;

  /// Makes the save that a signal asked for, and says in one line what became of it. Whether the
  /// run is to end. REQUIRES: the trainer may be asked for a save.
  bool Attend();
  /// Saves at once, where that is wanted: who ends jobs may not wait for more than that. What fails
  /// is tried again, and told, with the other outputs.
  void SaveForEnd();
  bool interrupted() const { return watch_.interrupted(); }
  /// Whether the last step had a finite loss. Without one nothing is saved.
  void NoteLoss(bool finite) { loss_is_finite_ = finite; }
  /// Saves that a signal has asked for and that were tried.
  int saves() const { return saves_; }

 private:
  std::string SaveNow();

  TrainSession& session_;
  Console& console_;
  const InterruptWatch& watch_;
  bool loss_is_finite_ = true;
  int saves_ = 0;
};

}  // namespace sluice::tools
