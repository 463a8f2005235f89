#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/step/fork_join.h"

namespace sluice::gpt {

/// Threads that share the tasks of a computation: the calling thread and some others, which sleep
/// between computations. Threads: one calls ForEach at a time.
class ComputeThreads {
 public:
  /// `count`: at least 1, the caller included. Errors: ResourceExhausted (a thread is refused).
  static absl::StatusOr<std::unique_ptr<ComputeThreads>> Create(int count);

  int count() const { return count_; }
  /// Calls `task(i)` once for each i in [0, tasks) and returns when all are done. A thread that is
  /// free takes the next task, so no result may depend on the thread that makes it.
  void ForEach(std::size_t tasks, const std::function<void(std::size_t i)>& task);

  /// Notes that a task could not do its work, so that later results are worth nothing. Threads:
  /// any.
  void NoteFailure(absl::Status status);
  /// The first failure that was noted; OK where there is none. Threads: any.
  absl::Status failure() const;
  void ForgetFailure();

 private:
  ComputeThreads(int count, std::unique_ptr<optim::ForkJoin> join)
      : count_(count), join_(std::move(join)) {}

  const int count_;
  const std::unique_ptr<optim::ForkJoin> join_;
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  absl::Status failure_;  ///< failure that was noted first; guarded by the mutex
};

}  // namespace sluice::gpt
