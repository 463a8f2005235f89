#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::base {

/// Priority of threads when processors are short.
enum class ThreadPriority {
  kUsual,
  /// Threads that others wait for, and that work for a moment at a time. They have short slices of
  /// time, so they run soon after they wake up, even where all processors compute. Source: Linux
  /// 6.12, Documentation/scheduler/sched-eevdf.rst; earlier kernels take no notice.
  kPrompt,
  /// Threads that move or hash bytes. They have a nice value of at least 5, so threads that decide
  /// and compute go first.
  kBulk,
};

struct WorkerPoolOptions {
  int threads = 1;
  /// Number of jobs that may wait. Submit blocks beyond it.
  std::size_t queue_capacity = 1024;
  /// Name of the threads as tools show it, at most 15 characters.
  std::string name = "sluice-worker";
  /// Processors the threads may run on; empty means no restriction.
  std::vector<int> cpus;
  ThreadPriority priority = ThreadPriority::kBulk;
};

/// A fixed set of threads that run jobs. Page bytes are hashed and copied nowhere else. Tests put a
/// pool without threads in its place. Threads: Submit from any thread but the pool's own (a job
/// that submits could block on itself).
class WorkerPool {
 public:
  using Job = absl::AnyInvocable<void()>;

  /// Makes a pool. Errors: ResourceExhausted (a thread cannot be started; those that were are
  /// joined).
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(const WorkerPoolOptions& options);
  /// Makes a pool, for tests: a thread that cannot be started ends the program.
  explicit WorkerPool(const WorkerPoolOptions& options);
  /// Runs every submitted job, then joins.
  virtual ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Blocks while the queue is full.
  virtual void Submit(Job job);

 protected:
  /// A pool without threads: the class that derives from it runs the jobs.
  WorkerPool() = default;

 private:
  struct Unstarted {};
  WorkerPool(const WorkerPoolOptions& options, Unstarted) : capacity_(options.queue_capacity) {
    SLUICE_CHECK(capacity_ > 0, "a worker pool queues at least one job");
  }
  absl::Status Start(const WorkerPoolOptions& options);
  bool Take(Job* job);
  void Run();

  const std::size_t capacity_ = 1;
  Mutex mutex_;
  CondVar not_empty_;
  CondVar not_full_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

/// Names the calling thread, binds it to `cpus` (empty: leaves its affinity as it is) and sets its
/// priority. Failure to bind is ignored by design: a CPU set is a wish, results do not depend on
/// it.
void SetUpThread(const std::string& name,
                 const std::vector<int>& cpus,
                 ThreadPriority priority = ThreadPriority::kUsual);

}  // namespace sluice::base
