#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "base/thread.h"

namespace sluice::base {
namespace {

constexpr int kBulkNice = 5;

/// The shortest slice that Linux grants.
constexpr std::uint64_t kShortSliceNanoseconds = 100'000;

/// SCHED_FLAG_RESET_ON_FORK.
constexpr std::uint64_t kResetOnFork = 1;

/// The kernel's first sched_attr, of 48 bytes. The header that has it contradicts <sched.h>.
struct SchedulingAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;
  std::uint64_t deadline;
  std::uint64_t period;
};

/// Asks for a short slice. Kernels before 6.12 take no notice, and a sandbox may refuse the calls:
/// results do not depend on it.
void AskForShortSlices() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // somebody's choice
  attributes.runtime = kShortSliceNanoseconds;
  attributes.flags |= kResetOnFork;  // threads that this one starts have usual slices
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void SetUpThread(const std::string& name, const std::vector<int>& cpus, ThreadPriority priority) {
  // Linux keeps nice values by thread; raising one needs no privilege and cannot fail.
  const auto thread = static_cast<id_t>(gettid());
  if (priority == ThreadPriority::kBulk && getpriority(PRIO_PROCESS, thread) < kBulkNice) {
    setpriority(PRIO_PROCESS, thread, kBulkNice);
  }
  if (priority == ThreadPriority::kPrompt) AskForShortSlices();
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
