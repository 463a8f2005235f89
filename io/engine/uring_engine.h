#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "io/engine/io_engine.h"
#include "io/engine/request_queue.h"
#include "io/engine/ring_buffers.h"
#include "io/engine/ring_calls.h"
#include "io/engine/uring_batch.h"
#include "io/engine/uring_prepare.h"
#include "io/engine/uring_ring.h"
#include "io/file/file_descriptor.h"

namespace sluice::io {

/// A thread that owns a ring. The thread submits (which may block in the kernel, so nobody else
/// does), waits, and runs completions. Other threads reach it through a queue, and wake it through
/// an eventfd that the ring always has a read armed on.
///
/// Requests in flight are at most queue_depth and that read, so the completion queue, twice the
/// size, cannot overflow. The ring is restricted to what requests ask for, where the kernel can. It
/// knows the files of the options and registered memory by number.
class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(const IoEngineOptions& options);
  ~UringEngine() override;

  /// Starts the thread and makes the ring on it. Errors: those of CreateRing.
  absl::Status Start();

  void Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) override;
  RegisteredMemory RegisterMemory(std::span<std::byte> memory) override;
  void UnregisterMemory(std::span<std::byte> memory) override;
  std::string_view name() const override { return "io_uring"; }
  std::string features() const override { return info_.features; }
  std::uint64_t merged() const override { return merged_.load(std::memory_order_relaxed); }

 protected:
  void SubmitChecked(IoRequest* request) override;

 private:
  struct Completed {
    UringBatch* batch;
    std::int64_t result;
  };

  void Run(class RingStart& start);
  void SetUpNumbers();
  void FillRing();
  std::vector<UringBatch*>& TakeWaiting();
  void Prepare(UringBatch* batch);
  void ArmWake();
  bool HasRoom() const;
  bool Finished();
  bool MaySleep();
  void Submit(unsigned completions_wanted);
  void SubmitRefused(int error_number);
  void FailUnsubmitted(int error_number);
  void Reap();
  void TakeCompletion(const io_uring_cqe& cqe);
  void NoteCompleted(UringBatch* batch, std::int64_t result);
  void RunCompletions();
  void TryAlone(IoRequest* request);
  void Wake();

  const IoEngineOptions options_;
  FileDescriptor wake_fd_;
  std::thread thread_;
  RingInfo info_;  ///< written before Start returns
  std::atomic<std::uint64_t> merged_{0};

  base::Mutex mutex_;
  RequestQueue queue_ ABSL_GUARDED_BY(mutex_);
  RingCalls calls_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  /// The thread has seen an empty queue and may sleep: the next submitter wakes it.
  bool may_sleep_ ABSL_GUARDED_BY(mutex_) = false;

  // The rest belongs to the I/O thread.
  io_uring ring_{};
  std::optional<RingBuffers> buffers_;
  RingNumbers numbers_;
  bool wake_armed_ = false;
  std::uint64_t wake_count_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  int refusals_in_a_row_ = 0;
  /// Batches: as many as the kernel may have, and as many again with callbacks still to run. Never
  /// moved.
  std::vector<UringBatch> batches_;
  std::vector<UringBatch*> free_;
  /// Prepared but not yet taken by the kernel, in order; null is the wake read.
  std::vector<UringBatch*> unsubmitted_;
  std::vector<UringBatch*> taken_;
  std::vector<Completed> completed_;
};

}  // namespace sluice::io
