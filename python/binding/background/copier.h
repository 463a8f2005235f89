#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "python/binding/background/buffer.h"
#include "python/binding/session.h"
#include "python/binding/tensor_state.h"

namespace sluice::python {

/// One copy that a Copier has been asked for.
struct CopyJob {
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<TensorState> tensor;
  std::span<std::byte> bytes;
  std::atomic<bool> cancelled{false};
  /// Set once the copy has ended; then `status` changes no more.
  std::atomic<bool> ended{false};
  absl::Status status = absl::OkStatus();
};

class BackgroundCopy;

/// A thread that copies whole tensors beside the program: out of buffers of Python, or into them.
/// The thread never takes the GIL. Copies run one after another.
/// Threads: any, with the GIL. A child of fork has no such thread, and every call there raises
/// FailedPrecondition.
class Copier : public std::enable_shared_from_this<Copier> {
 public:
  /// Raises TierFull (ResourceExhausted) if no thread can be started.
  static std::shared_ptr<Copier> Create(std::shared_ptr<Session> session, CopyDirection direction);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Queues a copy of the whole tensor: behind the others, or before them (`urgent`). The pages of
  /// a copy out are asked for at once. Raises InvalidArgument unless the buffer is as large as the
  /// tensor, and FailedPrecondition after Stop.
  std::unique_ptr<BackgroundCopy> Start(const std::shared_ptr<TensorState>& tensor,
                                        const nanobind::object& object,
                                        bool urgent);
  /// Takes note of bytes that are copied now or later. The program frees memory in step with them;
  /// where memory is short, that goes back to the system. Raises FailedPrecondition once copies
  /// cannot be started: after Stop, and without the runtime.
  void Expect(std::uint64_t bytes);
  /// Waits until the copies that have not ended have at most so many bytes, or are none. Raises
  /// what signal handlers raise.
  void WaitForRoom(std::uint64_t bytes_max);
  /// Drops the copies that have not begun, and waits for the one that has. Again: only waits.
  void Stop();

 private:
  friend class BackgroundCopy;
  Copier(std::shared_ptr<Session> session, CopyDirection direction)
      : session_(std::move(session)), direction_(direction) {}
  void Run();
  std::shared_ptr<CopyJob> Next();
  absl::Status Copy(const CopyJob& job) const;
  void End(CopyJob& job, absl::Status status);
  /// Ends a job that has not begun, or tells the running one to. Returns true once it has ended.
  bool Cancel(CopyJob& job);
  void WaitForEnd(const CopyJob& job);
  template <typename Reached>
  void WaitUntil(const Reached& reached);
  /// Keeps the buffer of a job that runs still, until a later call finds it ended.
  void Keep(std::shared_ptr<CopyJob> job, Buffer buffer);
  void ReleaseEnded();

  struct Kept {
    std::shared_ptr<CopyJob> job;
    Buffer buffer;
  };
  const std::shared_ptr<Session> session_;
  const CopyDirection direction_;
  /// Buffers of copies that were dropped while they ran. Guarded by the GIL.
  std::vector<std::unique_ptr<Kept>> kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CopyJob>> queue_;
  std::uint64_t bytes_ = 0;                       ///< bytes of the jobs that have not ended
  std::atomic<std::uint64_t> expected_bytes_{0};  ///< bytes expected since the last return
  std::atomic<std::uint64_t> return_due_{0};      ///< bytes at which the next return is due
  bool stopped_ = false;
  std::mutex end_mutex_;  ///< guards the join of `thread_`, which several threads may ask for
  std::thread thread_;
};

/// A copy that Python has started. Its destruction gives the copy up; the buffer stays exported for
/// as long as the thread may touch it. REQUIRES: the GIL.
class BackgroundCopy {
 public:
  BackgroundCopy(std::shared_ptr<Copier> copier, std::shared_ptr<CopyJob> job, Buffer buffer)
      : copier_(std::move(copier)), job_(std::move(job)), buffer_(std::move(buffer)) {}
  ~BackgroundCopy();
  BackgroundCopy(const BackgroundCopy&) = delete;
  BackgroundCopy& operator=(const BackgroundCopy&) = delete;

  bool ended() const { return job_->ended; }
  /// Waits for the end. Raises the error of the copy, and what signal handlers raise.
  void Wait();

 private:
  const std::shared_ptr<Copier> copier_;
  const std::shared_ptr<CopyJob> job_;
  Buffer buffer_;
};

void BindCopier(nanobind::module_& module);

}  // namespace sluice::python
