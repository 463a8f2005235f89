#include "runtime/device/cuda/cuda_worker.h"

#include <future>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::device {

CudaWorker::CudaWorker(const CudaContextShare& share)
    : share_(share), user_events_(share), copy_events_(share) {}

absl::StatusOr<std::unique_ptr<CudaWorker>> CudaWorker::Start(const CudaContextShare& share,
                                                              const Options& options) {
  auto worker = absl::WrapUnique(new CudaWorker(share));
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  SLUICE_RETURN_IF_ERROR(worker->MakeStreams());
  std::promise<absl::Status> ready;
  SLUICE_ASSIGN_OR_RETURN(worker->thread_,
                          base::StartThread([worker = worker.get(), &ready, cpus = options.cpus] {
                            base::SetUpThread("sluice-cuda", cpus, base::ThreadPriority::kPrompt);
                            worker->Run(ready);
                          }));
  SLUICE_RETURN_IF_ERROR(ready.get_future().get());
  return worker;
}

absl::Status CudaWorker::MakeStreams() {
  SLUICE_ASSIGN_OR_RETURN(in_,
                          CudaCopies::Create(share_, copy_events_, CudaCopies::Direction::kIn));
  SLUICE_ASSIGN_OR_RETURN(out_,
                          CudaCopies::Create(share_, copy_events_, CudaCopies::Direction::kOut));
  return absl::OkStatus();
}

CudaWorker::~CudaWorker() {
  {
    base::MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  // Streams and events go with the context current.
  const ScopedCudaContext current(share_);
  in_.reset();
  out_.reset();
  copy_events_.Clear();
  base::MutexLock lock(events_mutex_);
  user_events_.Clear();
}

void CudaWorker::Submit(CudaCopies::Direction direction, CudaCopies::Job job) {
  base::MutexLock lock(mutex_);
  auto& jobs = direction == CudaCopies::Direction::kIn ? requests_.in : requests_.out;
  jobs.push_back(std::move(job));
  changed_.NotifyOne();
}

void CudaWorker::Await(CudaStream stream, CudaEvent event, DoneFn done) {
  const bool of_thread = stream == CudaPerThreadStream();
  const std::thread::id thread = of_thread ? std::this_thread::get_id() : std::thread::id();
  base::MutexLock lock(mutex_);
  const StreamOfThread key{stream, thread};
  requests_.awaited.push_back({key, event, std::move(done), absl::OkStatus()});
  changed_.NotifyOne();
}

absl::StatusOr<CudaEvent> CudaWorker::Record(CudaStream stream) {
  base::MutexLock lock(events_mutex_);
  return user_events_.Record(stream);
}

void CudaWorker::Run(std::promise<absl::Status>& ready) {
  const ScopedCudaContext current(share_);
  ready.set_value(current.status());
  if (!current.status().ok()) return;
  Requests requests;
  while (TakeRequests(&requests)) {
    Accept(std::exchange(requests, {}));
    bool moved = in_->Poll();
    moved |= out_->Poll();
    moved |= PollAwaited();
    moved |= in_->Start();
    moved |= out_->Start();
    if (!moved) std::this_thread::yield();
  }
}

bool CudaWorker::TakeRequests(Requests* requests) {
  base::MutexLock lock(mutex_);
  while (idle() && requests_.empty() && !closing_) changed_.Wait(mutex_);
  *requests = std::exchange(requests_, {});
  return !idle() || !requests->empty();
}

void CudaWorker::Accept(Requests requests) {
  for (CudaCopies::Job& job : requests.in) in_->Add(std::move(job));
  for (CudaCopies::Job& job : requests.out) out_->Add(std::move(job));
  for (Arrival& arrival : requests.awaited) {
    awaited_[arrival.stream].push_back(std::move(arrival));
  }
}

bool CudaWorker::PollAwaited() {
  bool arrived = false;
  for (auto stream = awaited_.begin(); stream != awaited_.end();) {
    arrived |= PollStream(stream->second);
    stream = stream->second.empty() ? awaited_.erase(stream) : std::next(stream);
  }
  return arrived;
}

bool CudaWorker::PollStream(std::deque<Arrival>& arrivals) {
  bool arrived = false;
  for (; !arrivals.empty(); arrived = true) {
    Arrival& first = arrivals.front();
    absl::StatusOr<bool> done = false;
    {
      base::MutexLock lock(events_mutex_);
      done = user_events_.IsDone(first.event);
      if (!done.ok() && first.error.ok()) first.error = done.status();
      const bool comes = done.ok() ? !*done : !share_.health().dead();
      if (comes) break;
      user_events_.Return(first.event);
    }
    first.done(first.error);
    arrivals.pop_front();
  }
  return arrived;
}

}  // namespace sluice::device
