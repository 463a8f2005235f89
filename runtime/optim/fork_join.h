#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/worker_pool.h"

namespace sluice::optim {

/// Splits work over the calling thread and some others.
/// Threads: one calls ForEach at a time.
class ForkJoin {
 public:
  /// `threads`: at least 1, the caller included. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ForkJoin>> Create(int threads);

  /// Calls `work(begin, end)` for parts of [0, count), each but the last a multiple of `unit`, and
  /// returns when all are done.
  void ForEach(std::size_t count,
               std::size_t unit,
               const std::function<void(std::size_t begin, std::size_t end)>& work);

 private:
  explicit ForkJoin(std::size_t threads) : threads_(threads) {}
  void Finished();

  const std::size_t threads_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<base::WorkerPool> pool_;  ///< null for one thread; goes first
};

}  // namespace sluice::optim
