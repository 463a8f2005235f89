#include "io/engine/blocking_engine.h"

#include <utility>

#include "absl/memory/memory.h"
#include "base/check.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "io/engine/signals.h"

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
  return absl::OkStatus();
}

BlockingEngine::~BlockingEngine() {
  {
    base::MutexLock lock(mutex_);
    SLUICE_CHECK(queue_.empty(), "an engine is destroyed after its last request");
    stopping_ = true;
    may_take_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void BlockingEngine::SubmitChecked(IoRequest* request) {
  base::MutexLock lock(mutex_);
  queue_.Push(request, RequestQueue::Clock::now());
  if (HasRoom()) may_take_.NotifyOne();
}

void BlockingEngine::Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) {
  base::MutexLock lock(mutex_);
  queue_.Hasten(file, offset, bytes);
}

std::string BlockingEngine::features() const {
  return fmt::format("{} thread{}", threads_.size(), threads_.size() == 1 ? "" : "s");
}

void BlockingEngine::Run() {
  while (IoRequest* request = WaitForRequest()) {
    const std::uint64_t bytes = request->command.bytes;
    const std::int64_t result = perform_(request->command);
    NotePerformed(bytes);  // the disk first: the next request begins before the callback
    request->Complete(result);
  }
}

bool BlockingEngine::HasRoom() const {
  return in_flight_ < kRequestsLeast || bytes_in_flight_ < bytes_in_flight_max_;
}

void BlockingEngine::NotePerformed(std::uint64_t bytes) {
  base::MutexLock lock(mutex_);
  --in_flight_;
  bytes_in_flight_ -= bytes;
  if (!queue_.empty() && HasRoom()) may_take_.NotifyOne();
}

IoRequest* BlockingEngine::WaitForRequest() {
  base::MutexLock lock(mutex_);
  while ((queue_.empty() || !HasRoom()) && !stopping_) may_take_.Wait(mutex_);
  IoRequest* const request = queue_.Pop(RequestQueue::Clock::now());
  if (request == nullptr) return nullptr;
  ++in_flight_;
  bytes_in_flight_ += request->command.bytes;
  if (!queue_.empty() && HasRoom()) may_take_.NotifyOne();
  return request;
}

}  // namespace sluice::io
