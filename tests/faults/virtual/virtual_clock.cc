#include "tests/faults/virtual/virtual_clock.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice::faults {

bool VirtualClock::ComesLater(const Event& a, const Event& b) {
  return std::tie(a.time, a.sequence) > std::tie(b.time, b.sequence);
}

void VirtualClock::After(std::chrono::microseconds pause, Job job) {
  events_.push_back({now_ + pause, sequence_++, std::move(job)});
  std::push_heap(events_.begin(), events_.end(), ComesLater);
}

bool VirtualClock::RunNext() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end(), ComesLater);
  Event next = std::move(events_.back());
  events_.pop_back();
  now_ = next.time;
  std::move(next.job)();
  return true;
}

}  // namespace sluice::faults
