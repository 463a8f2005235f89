#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace sluice::engine {

/// Lanes for Runtime::Read and Runtime::Write. Each call has a lane of its own while it runs, so
/// that it waits for nothing but its own leases. Threads: any.
class CopyLanes {
 public:
  /// Takes the lowest lane that no call has.
  std::uint32_t Take() {
    const base::MutexLock lock(mutex_);
    const auto free = std::ranges::find(taken_, false);
    const auto lane = static_cast<std::uint32_t>(free - taken_.begin());
    if (free == taken_.end()) taken_.push_back(false);
    taken_[lane] = true;
    return lane;
  }
  void GiveBack(std::uint32_t lane) {
    const base::MutexLock lock(mutex_);
    taken_[lane] = false;
  }

 private:
  base::Mutex mutex_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
