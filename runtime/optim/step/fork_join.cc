#include "runtime/optim/step/fork_join.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace sluice::optim {

absl::StatusOr<std::unique_ptr<ForkJoin>> ForkJoin::Create(
    int threads, const std::vector<std::vector<int>>& nodes, const ForkJoinThreads& as) {
  auto join = std::unique_ptr<ForkJoin>(new ForkJoin());
  const auto count = static_cast<std::size_t>(threads);
  if (nodes.size() < 2 || count < nodes.size()) {
    SLUICE_RETURN_IF_ERROR(join->AddTeam(count - 1, {}, as));
    return join;
  }
  join->caller_works_ = false;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t share = count * (i + 1) / nodes.size() - count * i / nodes.size();
    SLUICE_RETURN_IF_ERROR(join->AddTeam(share, nodes[i], as));
  }
  return join;
}

absl::Status ForkJoin::AddTeam(std::size_t threads,
                               const std::vector<int>& cpus,
                               const ForkJoinThreads& as) {
  Team team{.threads = threads};
  if (threads > 0) {
    SLUICE_ASSIGN_OR_RETURN(team.pool,
                            base::WorkerPool::Create({.threads = static_cast<int>(threads),
                                                      .name = as.name,
                                                      .cpus = cpus,
                                                      .priority = as.priority}));
  }
  teams_.push_back(std::move(team));
  return absl::OkStatus();
}

std::vector<base::WorkerPool*> ForkJoin::Helpers(std::optional<std::size_t> node) const {
  std::vector<base::WorkerPool*> helpers;
  for (std::size_t i = 0; i < teams_.size(); ++i) {
    if (binds() && node.has_value() && *node != i) continue;
    helpers.insert(helpers.end(), teams_[i].threads, teams_[i].pool.get());
  }
  return helpers;
}

void ForkJoin::Submit(base::WorkerPool& pool, std::function<void()> job) {
  {
    const base::MutexLock lock(mutex_);
    ++running_;
  }
  pool.Submit([this, job = std::move(job)] {
    job();
    Finished();
  });
}

void ForkJoin::Finished() {
  const base::MutexLock lock(mutex_);
  if (--running_ == 0) changed_.NotifyOne();
}

void ForkJoin::ForEach(std::size_t count,
                       std::size_t unit,
                       const std::function<void(std::size_t begin, std::size_t end)>& work,
                       std::optional<std::size_t> node) {
  SLUICE_CHECK(!binds() || !node.has_value() || *node < teams_.size(), "a node has threads");
  const std::vector<base::WorkerPool*> helpers = Helpers(node);
  const std::size_t shares = helpers.size() + (caller_works_ ? 1 : 0);
  const std::size_t units = (count + unit - 1) / unit;
  const auto border = [=](std::size_t share) {
    return std::min(units * share / shares * unit, count);
  };
  for (std::size_t i = 0; i < helpers.size(); ++i) {
    const std::size_t share = i + shares - helpers.size();
    const std::size_t begin = border(share);
    const std::size_t end = border(share + 1);
    if (begin < end) Submit(*helpers[i], [begin, end, &work] { work(begin, end); });
  }
  if (caller_works_) work(0, border(1));
  const base::MutexLock lock(mutex_);
  while (running_ > 0) changed_.Wait(mutex_);
}

}  // namespace sluice::optim
