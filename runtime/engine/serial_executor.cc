#include "runtime/engine/serial_executor.h"

#include <utility>

#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::engine {
namespace {

/// Jobs of PostLater that may wait for another reason to wake the thread.
constexpr std::size_t kJobsLaterMax = 64;

}  // namespace

absl::Status SerialExecutor::Start(const std::string& name, const std::vector<int>& cpus) {
  SLUICE_ASSIGN_OR_RETURN(thread_, base::StartThread([this, name, cpus] {
                            base::SetUpThread(name, cpus, base::ThreadRole::kBulk);
                            Run();
                          }));
  return absl::OkStatus();
}

SerialExecutor::~SerialExecutor() {
  {
    base::MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void SerialExecutor::Post(Job job) {
  base::MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  WakeLocked();
}

void SerialExecutor::PostLater(Job job) {
  base::MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() >= kJobsLaterMax) WakeLocked();
}

void SerialExecutor::WakeLocked() {
  if (!awake_) changed_.NotifyOne();
  awake_ = true;
}

bool SerialExecutor::Pop(Job* job) {
  base::MutexLock lock(mutex_);
  if (jobs_.empty()) awake_ = false;
  while (!closed_ && !awake_) changed_.Wait(mutex_);
  if (jobs_.empty()) return false;
  *job = std::move(jobs_.front());
  jobs_.pop_front();
  return true;
}

void SerialExecutor::Run() {
  Job job;
  while (Pop(&job)) {
    std::move(job)();
    job = nullptr;  // what the job holds is released before the wait
  }
}

}  // namespace sluice::engine
