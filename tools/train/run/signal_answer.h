#pragma once

#include <string>

#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// Answers signals of a run between two pieces of its work. The session's trainer asks the object
/// while it lives. Threads: externally synchronised. Lifetime: all arguments outlive the object.
class SignalAnswer {
 public:
  SignalAnswer(TrainSession& session, Console& console, const InterruptWatch& watch);
  ~SignalAnswer();
  SignalAnswer(const SignalAnswer&) = delete;
  SignalAnswer& operator=(const SignalAnswer&) = delete;

  /// Makes the save that a signal asked for, and prints its outcome in one line. Returns whether
  /// the run is to end. REQUIRES: the trainer may be asked for a save.
  bool Attend();
  /// Saves at once, where that is wanted: a batch system may not wait for more than that. A save
  /// that fails is tried again, and told, with the other outputs.
  void SaveForEnd();
  bool interrupted() const { return watch_.interrupted(); }
  /// Notes whether the last step had a finite loss. Nothing is saved without one.
  void NoteLoss(bool finite) { loss_is_finite_ = finite; }
  /// Number of saves that a signal has asked for and that were tried.
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
