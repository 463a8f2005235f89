#include "runtime/optim/fork_join.h"

#include "base/status.h"

namespace sluice::optim {

absl::StatusOr<std::unique_ptr<ForkJoin>> ForkJoin::Create(int threads) {
  auto join = std::unique_ptr<ForkJoin>(new ForkJoin(static_cast<std::size_t>(threads)));
  if (threads > 1) {
    SLUICE_ASSIGN_OR_RETURN(
        join->pool_, base::WorkerPool::Create({.threads = threads - 1, .name = "sluice-update"}));
  }
  return join;
}

void ForkJoin::Finished() {
  const base::MutexLock lock(mutex_);
  if (--running_ == 0) changed_.NotifyOne();
}

void ForkJoin::ForEach(std::size_t count,
                       std::size_t unit,
                       const std::function<void(std::size_t begin, std::size_t end)>& work) {
  const std::size_t units = (count + unit - 1) / unit;
  const auto border = [=, this](std::size_t thread) {
    return std::min(units * thread / threads_ * unit, count);
  };
  for (std::size_t thread = 1; thread < threads_; ++thread) {
    const std::size_t begin = border(thread);
    const std::size_t end = border(thread + 1);
    if (begin == end) continue;
    {
      const base::MutexLock lock(mutex_);
      ++running_;
    }
    pool_->Submit([this, begin, end, &work] {
      work(begin, end);
      Finished();
    });
  }
  work(0, border(1));
  const base::MutexLock lock(mutex_);
  while (running_ > 0) changed_.Wait(mutex_);
}

}  // namespace sluice::optim
