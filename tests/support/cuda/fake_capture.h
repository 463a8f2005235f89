#pragma once

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tests/support/cuda/gpu/fake_stream.h"

namespace sluice::testing {

/// Work that streams capture, in the order of the calls. Lifetime: that of the driver.
struct FakeCapture {
  FakeCapture(FakeStream& origin_stream, bool is_global)
      : origin(origin_stream), global(is_global) {}

  FakeStream& origin;
  const bool global;
  const std::thread::id thread = std::this_thread::get_id();
  std::atomic<bool> ended{false};
  std::atomic<bool> invalid{false};
  base::Mutex mutex;
  std::vector<FakeWork> work ABSL_GUARDED_BY(mutex);
  std::vector<FakeStream*> streams ABSL_GUARDED_BY(mutex);  ///< the origin, and those that joined

  void Add(FakeWork item) {
    const base::MutexLock lock(mutex);
    work.push_back(std::move(item));
  }
  std::vector<FakeWork> TakeWork() {
    const base::MutexLock lock(mutex);
    return std::move(work);
  }
};

/// An instantiated graph: a line of work, which is one of the orders that the capture allows.
struct FakeGraph {
  std::vector<FakeWork> work;
  std::atomic<bool> alive{true};
};

}  // namespace sluice::testing
