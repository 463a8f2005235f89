#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "tools/train/report/link_rates.h"
#include "tools/train/report/run_report.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// Slows the emulated device's link down once. Bytes that must cross it per step then take
/// device.emulated.load of the time that a step takes in RAM.
/// Threads: externally synchronised.
/// Threads: externally synchronised.
class LinkPacer {
 public:
  explicit LinkPacer(double load) : load_(load) {}

  /// Whether a pace is wanted and not yet set.
  bool pending() const { return load_ > 0 && !done_; }
  /// Sets the pace from the recorded schedule of the main key. The session's rates follow it, and
  /// the steps so far are not judged any more. Errors: those of Runtime::RecordedSchedule and
  /// SetEmulatedRates.
  absl::Status SetPace(double ram_step_seconds, TrainSession& session, RunReport* report);
  /// Pace in bytes per second of each direction, once it is set.
  double rate() const { return rate_; }

 private:
  const double load_;
  bool done_ = false;
  double rate_ = 0;
};

}  // namespace sluice::tools
