#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "base/thread.h"

namespace sluice::base {
namespace {

constexpr int kBulkNice = 5;

}  // namespace

void SetUpThread(const std::string& name, const std::vector<int>& cpus, ThreadPriority priority) {
  // Linux keeps nice values by thread; raising one needs no privilege and cannot fail.
  if (priority == ThreadPriority::kBulk) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBulkNice);
  }
  if (!cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  // The name is set after the processors: whoever sees the name finds the thread on its processors.
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options) : WorkerPool(options, Unstarted()) {
  SLUICE_CHECK(Start(options).ok(), "the system has a thread left");
}

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(const WorkerPoolOptions& options) {
  auto pool = absl::WrapUnique(new WorkerPool(options, Unstarted()));
  SLUICE_RETURN_IF_ERROR(pool->Start(options));
  return pool;
}

absl::Status WorkerPool::Start(const WorkerPoolOptions& options) {
  for (int i = 0; i < options.threads; ++i) {
    SLUICE_ASSIGN_OR_RETURN(std::thread thread, StartThread([this, options] {
                              SetUpThread(options.name, options.cpus, options.priority);
                              Run();
                            }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    not_empty_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(Job job) {
  MutexLock lock(mutex_);
  while (jobs_.size() >= capacity_) not_full_.Wait(mutex_);
  SLUICE_CHECK(!closed_, "a worker pool outlives its users");
  jobs_.push_back(std::move(job));
  not_empty_.NotifyOne();
}

/// Waits for a job; false once the pool is closed and none is left.
bool WorkerPool::Take(Job* job) {
  MutexLock lock(mutex_);
  while (!closed_ && jobs_.empty()) not_empty_.Wait(mutex_);
  if (jobs_.empty()) return false;
  *job = std::move(jobs_.front());
  jobs_.pop_front();
  not_full_.NotifyOne();
  return true;
}

void WorkerPool::Run() {
  Job job;
  while (Take(&job)) {
    std::move(job)();
    job = nullptr;
  }
}

}  // namespace sluice::base
