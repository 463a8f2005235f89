#include "tests/faults/virtual/executor.h"

#include <utility>

namespace sluice::faults {

void ThreadExecutor::Post(Job job) {
  base::MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  posted_.NotifyOne();
}

bool ThreadExecutor::RunNext(bool expects) {
  Job job;
  {
    base::MutexLock lock(mutex_);
    while (jobs_.empty() && expects) posted_.Wait(mutex_);
    if (jobs_.empty()) return false;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  std::move(job)();
  return true;
}

}  // namespace sluice::faults
