#include "base/timer.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::base {

std::chrono::microseconds Backoff::PauseAfter(int failed) const {
  constexpr int kDoublingsMax = 20;
  return first_pause * (std::int64_t{1} << std::clamp(2 * (failed - 1), 0, kDoublingsMax));
}

Timer::Timer(std::string name, std::vector<int> cpus)
    : name_(std::move(name)), cpus_(cpus.empty() ? AllowedCpus() : std::move(cpus)) {}

Timer::~Timer() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    SLUICE_CHECK(jobs_.empty(), "a timer outlives its jobs");
    closed_ = true;
    changed_.NotifyAll();
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
}

bool Timer::After(std::chrono::microseconds pause, Job job) {
  MutexLock lock(mutex_);
  if (!EnsureThread()) return false;
  jobs_.emplace(Clock::now() + pause, std::move(job));
  changed_.NotifyAll();
  return true;
}

bool Timer::EnsureThread() {
  if (thread_.joinable()) return true;
  absl::StatusOr<std::thread> thread = StartThread([this] {
    SetUpThread(name_, cpus_);
    Run();
  });
  if (!thread.ok()) return false;
  thread_ = *std::move(thread);
  return true;
}

void Timer::Run() {
  Job job;
  while (Next(&job)) {
    std::move(job)();
    job = nullptr;
  }
}

bool Timer::Next(Job* job) {
  MutexLock lock(mutex_);
  while (jobs_.empty() || jobs_.begin()->first > Clock::now()) {
    if (closed_) return false;
    if (jobs_.empty()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, Clock::time_point(jobs_.begin()->first));
    }
  }
  *job = std::move(jobs_.begin()->second);
  jobs_.erase(jobs_.begin());
  return true;
}

}  // namespace sluice::base
