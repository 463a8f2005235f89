#include "io/blocking_engine.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "base/check.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "io/signals.h"

namespace sluice::io {

absl::StatusOr<std::unique_ptr<BlockingEngine>> BlockingEngine::Create(const Options& options,
                                                                       PerformFn perform) {
  auto engine = absl::WrapUnique(new BlockingEngine(options, std::move(perform)));
  SLUICE_RETURN_IF_ERROR(engine->Start(options));
  return engine;
}

absl::Status BlockingEngine::Start(const Options& options) {
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    SLUICE_ASSIGN_OR_RETURN(std::thread thread, base::StartThread([this, cpus = options.cpus] {
                              BlockAllSignals();
                              base::SetUpThread("sluice-io", cpus);
                              Run();
                            }));
    threads_.push_back(std::move(thread));
  }
  not_begun_.wait();  // so that features() is true from the beginning
  return absl::OkStatus();
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
  // Before the request, which may be the last: then nothing keeps the engine.
  if (thread_count_ > 1) common_cpu_.Check();
  base::MutexLock lock(mutex_);
  queue_.Push(request, RequestQueue::Clock::now());
  not_empty_.NotifyOne();
}

void BlockingEngine::Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) {
  base::MutexLock lock(mutex_);
  queue_.Hasten(file, offset, bytes);
}

std::string BlockingEngine::features() const {
  return fmt::format("{} thread{}{}",
                     thread_count_,
                     thread_count_ == 1 ? "" : "s",
                     together() ? " on one processor" : "");
}

void BlockingEngine::Run() {
  std::optional<CommonCpu::Member> member;
  if (thread_count_ > 1) member.emplace(common_cpu_);
  not_begun_.count_down();
  while (IoRequest* request = WaitForRequest()) {
    request->Complete(perform_(request->command));
    if (member.has_value()) common_cpu_.Check();
  }
}

IoRequest* BlockingEngine::WaitForRequest() {
  base::MutexLock lock(mutex_);
  while (queue_.empty() && !stopping_) not_empty_.Wait(mutex_);
  return queue_.Pop(RequestQueue::Clock::now());
}

}  // namespace sluice::io
