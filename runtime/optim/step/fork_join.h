#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/worker_pool.h"

namespace sluice::optim {

/// Name and priority of the threads.
struct ForkJoinThreads {
  std::string name = "sluice-update";
  base::ThreadPriority priority = base::ThreadPriority::kBulk;
};

/// Splits work over threads: the calling one and some others. If there are several NUMA nodes, the
/// threads are bound to the nodes instead. The results do not depend on which thread does what.
/// Threads: one calls ForEach at a time.
class ForkJoin {
 public:
  /// `threads`: at least 1, the caller included. `nodes`: the processors of each node (none: any).
  /// Threads are bound if there are several nodes and a thread for each. The caller, which is bound
  /// to none, then waits. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ForkJoin>> Create(
      int threads, const std::vector<std::vector<int>>& nodes = {}, const ForkJoinThreads& as = {});

  /// Calls `work(begin, end)` for parts of [0, count), each but the last a multiple of `unit`, and
  /// returns when all are done. `node`: if threads are bound, those of this node alone do the work.
  void ForEach(std::size_t count,
               std::size_t unit,
               const std::function<void(std::size_t begin, std::size_t end)>& work,
               std::optional<std::size_t> node = std::nullopt);

  /// Whether ForEach heeds `node`.
  bool binds() const { return !caller_works_; }

 private:
  struct Team {
    std::unique_ptr<base::WorkerPool> pool;
    std::size_t threads = 0;
  };

  ForkJoin() = default;
  absl::Status AddTeam(std::size_t threads,
                       const std::vector<int>& cpus,
                       const ForkJoinThreads& as);
  /// The pool of each thread that takes part, beside the caller.
  std::vector<base::WorkerPool*> Helpers(std::optional<std::size_t> node) const;
  void Submit(base::WorkerPool& pool, std::function<void()> job);
  void Finished();

  base::Mutex mutex_;
  base::CondVar changed_;
  std::size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool caller_works_ = true;
  std::vector<Team> teams_;  ///< teams, one or one per node; destroyed first
};

}  // namespace sluice::optim
