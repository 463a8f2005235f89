#include "io/drives/disk_loops.h"

#include <liburing.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "io/engine/signals.h"

namespace sluice::io {
namespace {

std::uint64_t OffsetOf(const DiskTarget& target, std::uint64_t block) {
  return block * target.block_bytes % target.file.bytes;
}

/// Whether the block counts. A block that was moved in part, or failed for a reason that passes,
/// does not show the disk's speed. Errors: all others.
absl::StatusOr<bool> Counts(const DiskTarget& target, std::int64_t moved) {
  if (moved >= 0) return moved == static_cast<std::int64_t>(target.block_bytes);
  const auto error = static_cast<int>(-moved);
  if (error == EINTR || error == EAGAIN || error == ENOMEM) return false;
  // A limit of the process is the user's to raise, and says nothing of the disk.
  if (error == ECANCELED) {
    return absl::ResourceExhaustedError(
        base::ToAbsl(fmt::format("measuring the disk: {}", base::DescribeErrno(error))));
  }
  return base::StatusFromErrno(error, "measuring the disk");
}

class RingLoop final : public DiskLoop {
 public:
  static absl::StatusOr<std::unique_ptr<DiskLoop>> Create(std::uint32_t queue_depth) {
    std::unique_ptr<RingLoop> loop(new RingLoop());
    const int error = io_uring_queue_init(queue_depth, &loop->ring_, 0);
    if (error < 0) return base::StatusFromErrno(-error, "io_uring_queue_init");
    loop->usable_ = true;
    const int refused = io_uring_get_events(&loop->ring_);
    if (refused < 0 && refused != -EINTR) return base::StatusFromErrno(-refused, "io_uring_enter");
    return std::unique_ptr<DiskLoop>(std::move(loop));
  }
  ~RingLoop() override {
    if (usable_) io_uring_queue_exit(&ring_);
  }

  absl::StatusOr<std::uint64_t> Run(const DiskTarget& target, const DiskGoal& goal) override {
    absl::Status status;
    std::uint64_t started = 0;
    std::uint64_t finished = 0;
    std::uint64_t counted = 0;
    for (std::uint32_t i = 0; i < target.queue_depth && goal.Wants(started); ++i) {
      Prepare(target, goal, started++, i);
    }
    while (finished < started) {
      const absl::StatusOr<Finished> done = Next();
      if (!done.ok()) {
        Drain(started - finished - io_uring_sq_ready(&ring_));
        return done.status();
      }
      ++finished;
      const absl::StatusOr<bool> counts = Counts(target, done->moved);
      status.Update(counts.status());
      if (counts.ok() && *counts) ++counted;
      if (status.ok() && goal.Wants(started)) Prepare(target, goal, started++, done->place);
    }
    if (!status.ok()) return status;
    return counted;
  }

 private:
  RingLoop() = default;

  void Prepare(const DiskTarget& target,
               const DiskGoal& goal,
               std::uint64_t block,
               std::uint64_t place) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    std::byte* data = target.memory + place * target.block_bytes;
    const auto bytes = static_cast<unsigned>(target.block_bytes);
    const std::uint64_t offset = OffsetOf(target, block);
    if (goal.Writes(block)) {
      io_uring_prep_write(sqe, target.file.fd, data, bytes, offset);
    } else {
      io_uring_prep_read(sqe, target.file.fd, data, bytes, offset);
    }
    io_uring_sqe_set_data64(sqe, place);
  }

  struct Finished {
    std::uint64_t place = 0;  ///< index of its block in memory
    std::int64_t moved = 0;   ///< bytes, or a negative errno
  };

  /// Waits for one completion.
  absl::StatusOr<Finished> Next() {
    io_uring_cqe* cqe = nullptr;
    int error = -EINTR;
    while (error == -EINTR) {  // signals of the program interrupt the wait
      error = io_uring_submit(&ring_);
      if (error >= 0) error = io_uring_wait_cqe(&ring_, &cqe);
    }
    if (error < 0) return base::StatusFromErrno(-error, "io_uring_enter");
    const Finished done{.place = io_uring_cqe_get_data64(cqe), .moved = cqe->res};
    io_uring_cqe_seen(&ring_, cqe);
    return done;
  }

  /// Waits for all requests, as the kernel may still use their memory.
  void Drain(std::uint64_t in_flight) {
    io_uring_cqe* cqe = nullptr;
    for (; in_flight > 0; --in_flight) {
      while (io_uring_wait_cqe(&ring_, &cqe) == -EINTR) {
      }
      if (cqe != nullptr) io_uring_cqe_seen(&ring_, std::exchange(cqe, nullptr));
    }
  }

  io_uring ring_{};
  bool usable_ = false;
};

class ThreadLoop final : public DiskLoop {
 public:
  absl::StatusOr<std::uint64_t> Run(const DiskTarget& target, const DiskGoal& goal) override {
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> finished{0};
    std::vector<absl::Status> statuses(target.queue_depth);
    std::vector<std::thread> threads;
    absl::Status refused;  // running requests still end near the goal
    for (std::uint32_t i = 0; i < target.queue_depth && refused.ok(); ++i) {
      auto thread = base::StartThread([&, i] {
        BlockAllSignals();
        base::SetUpThread("sluice-loop", {});
        statuses[i] =
            RunOne(target, goal, target.memory + i * target.block_bytes, started, finished);
      });
      refused = thread.status();
      if (thread.ok()) threads.push_back(*std::move(thread));
    }
    for (std::thread& thread : threads) thread.join();
    SLUICE_RETURN_IF_ERROR(refused);
    for (const absl::Status& status : statuses) SLUICE_RETURN_IF_ERROR(status);
    return finished.load();
  }

 private:
  static absl::Status RunOne(const DiskTarget& target,
                             const DiskGoal& goal,
                             std::byte* data,
                             std::atomic<std::uint64_t>& started,
                             std::atomic<std::uint64_t>& finished) {
    for (std::uint64_t block = started++; goal.Wants(block); block = started++) {
      const auto offset = static_cast<off_t>(OffsetOf(target, block));
      const ssize_t moved = goal.Writes(block)
                                ? pwrite(target.file.fd, data, target.block_bytes, offset)
                                : pread(target.file.fd, data, target.block_bytes, offset);
      SLUICE_ASSIGN_OR_RETURN(const bool counts, Counts(target, moved < 0 ? -errno : moved));
      if (counts) ++finished;
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DiskLoop>> MakeRingLoop(std::uint32_t queue_depth) {
  return RingLoop::Create(queue_depth);
}

std::unique_ptr<DiskLoop> MakeThreadLoop() { return std::make_unique<ThreadLoop>(); }

}  // namespace sluice::io
