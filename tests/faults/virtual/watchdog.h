#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::faults {

/// Ends the program if its scope lasts longer than `limit`. Before that it says what it watched and
/// where each thread waits. A runner's time limit tells nothing of a test that hangs.
class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch(base::CondVar::Clock::time_point deadline);

  const std::string what_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice::faults
