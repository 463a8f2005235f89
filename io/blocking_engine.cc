#include "io/blocking_engine.h"

#include <utility>

#include "base/check.h"
#include "base/worker_pool.h"
#include "io/signals.h"

namespace sluice::io {

BlockingEngine::BlockingEngine(const Options& options, PerformFn perform)
    : name_(options.name), perform_(std::move(perform)) {
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this, cpus = options.cpus] {
      BlockAllSignals();
      base::SetUpThread("sluice-io", cpus);
      Run();
    });
  }
}

BlockingEngine::~BlockingEngine() {
  {
    base::MutexLock lock(mutex_);
    SLUICE_CHECK(queue_.empty(), "an engine is destroyed after its last request");
    stopping_ = true;
    not_empty_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void BlockingEngine::SubmitChecked(IoRequest* request) {
  base::MutexLock lock(mutex_);
  queue_.Push(request);
  not_empty_.NotifyOne();
}

void BlockingEngine::Run() {
  while (IoRequest* request = WaitForRequest()) {
    request->Complete(perform_(request->command));
  }
}

IoRequest* BlockingEngine::WaitForRequest() {
  base::MutexLock lock(mutex_);
  while (queue_.empty() && !stopping_) not_empty_.Wait(mutex_);
  return queue_.Pop();
}

}  // namespace sluice::io
