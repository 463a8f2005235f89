#pragma once

#include <chrono>
#include <utility>

#include "base/timer.h"
#include "base/worker_pool.h"
#include "tests/faults/virtual/virtual_clock.h"

namespace sluice::faults {

/// Pauses that pass on a virtual clock.
class VirtualTimer final : public base::Timer {
 public:
  explicit VirtualTimer(VirtualClock& clock) : Timer("none"), clock_(clock) {}
  bool After(std::chrono::microseconds pause, Job job) override {
    clock_.After(pause, std::move(job));
    return true;
  }

 private:
  VirtualClock& clock_;
};

/// Jobs that each take a few microseconds of a virtual clock, and no thread.
class VirtualWorkers final : public base::WorkerPool {
 public:
  explicit VirtualWorkers(VirtualClock& clock) : clock_(clock) {}
  void Submit(Job job) override { clock_.After(kHashing, std::move(job)); }

 private:
  static constexpr std::chrono::microseconds kHashing{2};
  VirtualClock& clock_;
};

}  // namespace sluice::faults
