#include "runtime/device/emulated_stream.h"

#include <deque>
#include <latch>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::device {
namespace {

/// State that a stream and its thread share. The thread may be the one that destroys the stream,
/// and then goes on without it until all work is done.
class WorkQueue {
 public:
  using Work = absl::AnyInvocable<void()>;

  void Push(Work work) {
    base::MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.NotifyOne();
  }

  /// Ends the queue: no work is pushed from now on, and Run returns when all work is done.
  void Close() {
    base::MutexLock lock(mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }

  void Run() {
    Work work;
    while (Pop(&work)) {
      work();
      work = nullptr;
    }
  }

 private:
  bool Pop(Work* work) {
    base::MutexLock lock(mutex_);
    while (queue_.empty() && !closing_) changed_.Wait(mutex_);
    if (queue_.empty()) return false;
    *work = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

class EmulatedStream : public Stream {
 public:
  EmulatedStream(std::shared_ptr<WorkQueue> queue, std::thread thread)
      : queue_(std::move(queue)), thread_(std::move(thread)) {}

  ~EmulatedStream() override {
    queue_->Close();
    if (InOwnWork()) {
      thread_.detach();  // a thread cannot wait for itself; it ends when all is done
    } else {
      thread_.join();
    }
  }

  void Enqueue(absl::AnyInvocable<void()> work) override { queue_->Push(std::move(work)); }

  absl::Status Notify(DoneFn done) override {
    Enqueue([done = std::move(done)]() mutable { done(absl::OkStatus()); });
    return absl::OkStatus();
  }

  void Synchronize() override {
    SLUICE_CHECK(!InOwnWork(), "a stream's own work does not wait for the stream");
    // Shared: the last step of count_down may come after wait has returned.
    auto reached = std::make_shared<std::latch>(1);
    Enqueue([reached] { reached->count_down(); });
    reached->wait();
  }

  bool InOwnWork() const override { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  const std::shared_ptr<WorkQueue> queue_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> MakeEmulatedStream(const std::vector<int>& cpus) {
  auto queue = std::make_shared<WorkQueue>();
  SLUICE_ASSIGN_OR_RETURN(std::thread thread, base::StartThread([queue, cpus] {
                            base::SetUpThread("sluice-stream", cpus);
                            queue->Run();
                          }));
  return std::make_unique<EmulatedStream>(std::move(queue), std::move(thread));
}

}  // namespace sluice::device
