#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace sluice::base {
namespace {

constexpr int kBulkNice = 5;

}  // namespace

void SetUpThread(const std::string& name, const std::vector<int>& cpus, ThreadRole role) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  // Linux keeps nice values by thread; raising one needs no privilege and cannot fail.
  if (role == ThreadRole::kBulk) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kBulkNice);
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

WorkerPool::WorkerPool(const WorkerPoolOptions& options) : queue_(options.queue_capacity) {
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this, name = options.name, cpus = options.cpus] {
      SetUpThread(name, cpus, ThreadRole::kBulk);
      Run();
    });
  }
}

WorkerPool::~WorkerPool() {
  queue_.Close();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Submit(Job job) {
  SLUICE_CHECK(queue_.Push(std::move(job)), "a worker pool outlives its users");
}

void WorkerPool::Run() {
  Job job;
  while (queue_.Pop(&job)) {
    std::move(job)();
    job = nullptr;
  }
}

}  // namespace sluice::base
