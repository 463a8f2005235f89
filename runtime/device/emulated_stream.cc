#include "runtime/device/emulated_stream.h"

#include <deque>
#include <latch>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/worker_pool.h"

namespace sluice::device {
namespace {

class EmulatedStream : public Stream {
 public:
  explicit EmulatedStream(const std::vector<int>& cpus)
      : thread_([this, cpus] {
          base::SetUpThread("sluice-stream", cpus);
          Run();
        }) {}

  ~EmulatedStream() override {
    {
      base::MutexLock lock(mutex_);
      closing_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void Enqueue(absl::AnyInvocable<void()> work) override {
    base::MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.NotifyOne();
  }

  void Notify(DoneFn done) override {
    Enqueue([done = std::move(done)]() mutable { done(absl::OkStatus()); });
  }

  void Synchronize() override {
    SLUICE_CHECK(std::this_thread::get_id() != thread_.get_id(),
                 "a stream's own work does not wait for the stream");
    // Shared: the last step of count_down may come after wait has returned.
    auto reached = std::make_shared<std::latch>(1);
    Enqueue([reached] { reached->count_down(); });
    reached->wait();
  }

 private:
  void Run() {
    absl::AnyInvocable<void()> work;
    while (Pop(&work)) {
      work();
      work = nullptr;
    }
  }

  bool Pop(absl::AnyInvocable<void()>* work) {
    base::MutexLock lock(mutex_);
    while (queue_.empty() && !closing_) changed_.Wait(mutex_);
    if (queue_.empty()) return false;
    *work = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Stream> MakeEmulatedStream(const std::vector<int>& cpus) {
  return std::make_unique<EmulatedStream>(cpus);
}

}  // namespace sluice::device
