#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_copies.h"
#include "runtime/device/cuda/cuda_events.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// The thread of one GPU: enqueues copies, polls events, calls back. The thread sleeps while it has
/// nothing to wait for. Else it polls without a pause, as a copy takes tens of microseconds.
/// Threads: any.
class CudaWorker {
 public:
  struct Options {
    std::vector<int> cpus;  ///< processors of the thread; empty: any
  };

  /// `share` outlives the worker. Errors: ResourceExhausted (threads), those of CudaHealth::Check.
  static absl::StatusOr<std::unique_ptr<CudaWorker>> Start(const CudaContextShare& share,
                                                           const Options& options);
  ~CudaWorker();  ///< completes all copies and notifications
  CudaWorker(const CudaWorker&) = delete;
  CudaWorker& operator=(const CudaWorker&) = delete;

  void Submit(CudaCopies::Direction direction, CudaCopies::Job job);
  /// Calls `done` once the event has come, or with the error of a dead GPU. The event is the
  /// worker's afterwards. The worker repeats a query that fails, and gives its error when the event
  /// has come: the stream may be the user's, which is never synchronised. Calls of one stream come
  /// in their order. REQUIRES: the thread is the one that recorded the event.
  void Await(CudaStream stream, CudaEvent event, DoneFn done);
  /// An event of the worker's, recorded on the stream. The context is current.
  absl::StatusOr<CudaEvent> Record(CudaStream stream);
  /// Does CudaCopies::PutBehind for the copies in.
  absl::Status PutBehindCopies(CudaStream stream, std::span<const std::byte* const> targets) {
    return in_->PutBehind(stream, targets);
  }

 private:
  /// A stream. The handle of a thread's own stream is the same in all threads.
  using StreamOfThread = std::pair<CudaStream, std::thread::id>;
  struct Arrival {
    StreamOfThread stream;
    CudaEvent event = nullptr;
    DoneFn done;
    absl::Status error;  ///< error of a query that the GPU survived
  };
  struct Requests {
    std::vector<CudaCopies::Job> in;
    std::vector<CudaCopies::Job> out;
    std::vector<Arrival> awaited;
    bool empty() const { return in.empty() && out.empty() && awaited.empty(); }
  };

  explicit CudaWorker(const CudaContextShare& share);
  absl::Status MakeStreams();
  /// Tells `ready` whether the thread can call the driver; otherwise it ends.
  void Run(std::promise<absl::Status>& ready);
  /// Waits for requests. Returns false when there are none left and never will be.
  bool TakeRequests(Requests* requests);
  void Accept(Requests requests);
  bool PollAwaited();
  bool PollStream(std::deque<Arrival>& arrivals);
  bool idle() const { return in_->idle() && out_->idle() && awaited_.empty(); }

  const CudaContextShare& share_;
  base::Mutex events_mutex_;
  CudaEventPool user_events_ ABSL_GUARDED_BY(events_mutex_);
  base::Mutex mutex_;
  base::CondVar changed_;
  Requests requests_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // Members of the thread alone.
  CudaEventPool copy_events_;
  std::unique_ptr<CudaCopies> in_;
  std::unique_ptr<CudaCopies> out_;
  std::map<StreamOfThread, std::deque<Arrival>> awaited_;
  std::thread thread_;
};

}  // namespace sluice::device
