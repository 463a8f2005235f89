#pragma once

#include <liburing.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "io/file_descriptor.h"
#include "io/io_engine.h"
#include "io/request_queue.h"

namespace sluice::io {

/// One thread that owns a ring: it submits (which may block in the kernel, so nobody else does),
/// waits, and runs completions. Other threads reach it through a queue, and wake it through an
/// eventfd that the ring always has a read armed on.
///
/// Never more in flight than queue_depth plus that read, so the completion queue, twice the size,
/// cannot overflow.
class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(const IoEngineOptions& options);
  ~UringEngine() override;

  /// Starts the thread and makes the ring on it. Errors: those of io_uring_queue_init.
  absl::Status Start();

  std::string_view name() const override { return "io_uring"; }

 protected:
  void SubmitChecked(IoRequest* request) override;

 private:
  struct Completed {
    IoRequest* request;
    std::int64_t result;
  };

  void Run(class RingStart& start);
  absl::Status CreateRing();
  absl::Status ProbeOperations();

  void FillRing();
  std::vector<IoRequest*>& TakeWaiting();
  void Prepare(IoRequest* request);
  void ArmWake();
  bool Finished();
  void SubmitAndWait();
  void SubmitRefused(int error_number);
  void FailUnsubmitted(int error_number);
  void Reap();
  void TakeCompletion(const io_uring_cqe& cqe);
  void RunCompletions();
  void Wake();

  const IoEngineOptions options_;
  FileDescriptor wake_fd_;
  std::thread thread_;

  base::Mutex mutex_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  /// The thread has seen an empty queue and may sleep: the next submitter wakes it.
  bool may_sleep_ ABSL_GUARDED_BY(mutex_) = false;

  // The rest belongs to the I/O thread.
  io_uring ring_{};
  bool wake_armed_ = false;
  std::uint64_t wake_count_ = 0;
  std::uint32_t in_flight_ = 0;
  int refusals_in_a_row_ = 0;
  /// Prepared but not yet taken by the kernel, in order; null is the wake read.
  std::vector<IoRequest*> unsubmitted_;
  std::vector<IoRequest*> taken_;
  std::vector<Completed> completed_;
};

}  // namespace sluice::io
