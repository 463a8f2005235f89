#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::engine {

/// One thread that runs jobs in the order in which they were posted. The queue has no bound: its
/// users post at most a fixed number of jobs per task in flight or per call of their own.
/// Threads: any. A job may post.
class SerialExecutor {
 public:
  using Job = absl::AnyInvocable<void()>;

  SerialExecutor() = default;
  /// Runs every posted job, then joins.
  ~SerialExecutor();
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  /// Starts the thread. Called once, before any other method. Errors: ResourceExhausted (the thread
  /// cannot be started).
  absl::Status Start(const std::string& name, const std::vector<int>& cpus);
  /// Never blocks.
  void Post(Job job);

 private:
  void Run();
  bool Pop(Job* job);

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice::engine
