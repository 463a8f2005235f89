#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "io/file_descriptor.h"
#include "io/io_engine.h"
#include "io/request_queue.h"
#include "io/uring_ring.h"

namespace sluice::io {

/// One thread that owns a ring: it submits (which may block in the kernel, so nobody else does),
/// waits, and runs completions. Other threads reach it through a queue, and wake it through an
/// eventfd that the ring always has a read armed on.
///
/// Never more in flight than queue_depth plus that read, so the completion queue, twice the size,
/// cannot overflow. Where the kernel can, the ring is restricted to reads and writes, and knows the
/// files of the options by number.
class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(const IoEngineOptions& options);
  ~UringEngine() override;

  /// Starts the thread and makes the ring on it. Errors: those of io_uring_queue_init.
  absl::Status Start();

  void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) override;
  std::string_view name() const override { return "io_uring"; }
  std::string features() const override { return info_.features; }
  std::uint64_t merged() const override { return merged_.load(std::memory_order_relaxed); }

 protected:
  void SubmitChecked(IoRequest* request) override;

 private:
  /// One request of the kernel: a request of the queue, or several that are adjacent.
  struct Submission {
    std::vector<IoRequest*> requests;
    std::vector<iovec> pieces;
    std::uint64_t bytes = 0;
  };
  struct Completed {
    Submission* submission;
    std::int64_t result;
  };

  void Run(class RingStart& start);
  void FillRing();
  std::vector<Submission*>& TakeWaiting();
  void TakeInto(Submission& submission, IoRequest* request);
  bool MayGrow(const Submission& submission) const;
  void Prepare(Submission* submission);
  void SetFile(io_uring_sqe* sqe, const IoFile& file) const;
  void ArmWake();
  bool Finished();
  void SubmitAndWait();
  void SubmitRefused(int error_number);
  void FailUnsubmitted(int error_number);
  void Reap();
  void TakeCompletion(const io_uring_cqe& cqe);
  void RunCompletions();
  void Deliver(Submission& submission, std::int64_t result);
  void TryAlone(IoRequest* request);
  void Wake();

  const IoEngineOptions options_;
  FileDescriptor wake_fd_;
  std::thread thread_;
  RingInfo info_;  ///< written before Start returns
  std::atomic<std::uint64_t> merged_{0};

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
  std::vector<Submission> submissions_;  ///< queue_depth of them, never moved
  std::vector<Submission*> free_;
  /// Prepared but not yet taken by the kernel, in order; null is the wake read.
  std::vector<Submission*> unsubmitted_;
  std::vector<Submission*> taken_;
  std::vector<Completed> completed_;
};

}  // namespace sluice::io
