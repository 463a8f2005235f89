#include "runtime/engine/data/serial_executor.h"

#include <utility>

#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::engine {

absl::Status SerialExecutor::Start(const std::string& name, const std::vector<int>& cpus) {
  SLUICE_ASSIGN_OR_RETURN(thread_, base::StartThread([this, name, cpus] {
                            base::SetUpThread(name, cpus, base::ThreadPriority::kBulk);
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
  changed_.NotifyOne();
}

bool SerialExecutor::Pop(Job* job) {
  base::MutexLock lock(mutex_);
  while (!closed_ && jobs_.empty()) changed_.Wait(mutex_);
  if (jobs_.empty()) return false;
  *job = std::move(jobs_.front());
  jobs_.pop_front();
  return true;
}

void SerialExecutor::Run() {
  Job job;
  while (Pop(&job)) {
    std::move(job)();
    job = nullptr;  // the job's objects go before the wait
  }
}

}  // namespace sluice::engine
