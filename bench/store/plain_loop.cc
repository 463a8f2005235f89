#include "bench/store/plain_loop.h"

#include <liburing.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/steps.h"
#include "bench/store/system/page_buffers.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

absl::Status CheckMoved(std::int64_t moved, std::uint64_t wanted) {
  if (moved == static_cast<std::int64_t>(wanted)) return absl::OkStatus();
  if (moved < 0) return base::StatusFromErrno(static_cast<int>(-moved), "plain loop");
  return absl::InternalError(
      base::ToAbsl(fmt::format("plain loop: {} bytes moved instead of {}", moved, wanted)));
}

class PlainRingLoop {
 public:
  PlainRingLoop(const io::SpillFiles& files,
                const Load& load,
                const PageBuffers& buffers,
                const InterruptedFn& interrupted)
      : files_(files),
        load_(load),
        buffers_(buffers),
        interrupted_(interrupted),
        in_flight_(load.depth) {}
  ~PlainRingLoop() {
    if (usable_) io_uring_queue_exit(&ring_);
  }
  PlainRingLoop(const PlainRingLoop&) = delete;
  PlainRingLoop& operator=(const PlainRingLoop&) = delete;

  /// Flags of fio 3.33, if the kernel knows them (6.1).
  absl::Status Start() {
    constexpr unsigned kFlags =
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    int error = io_uring_queue_init(load_.depth, &ring_, kFlags);
    if (error == -EINVAL) error = io_uring_queue_init(load_.depth, &ring_, 0);
    usable_ = error == 0;
    return usable_ ? absl::OkStatus() : base::StatusFromErrno(-error, "io_uring_queue_init");
  }

  absl::StatusOr<Sample> Run() {
    const Stretch stretch;
    Steps steps(load_);
    for (std::uint32_t place = 0; place < load_.depth; ++place) Prepare(place, steps);
    while (outstanding_ > 0) {
      if (interrupted_ && interrupted_()) steps.Fail(absl::CancelledError("interrupted"));
      SLUICE_RETURN_IF_ERROR(TakeOne(steps));
    }
    SLUICE_RETURN_IF_ERROR(steps.status());
    return stretch.End(steps.bytes());
  }

 private:
  void Prepare(std::uint32_t place, Steps& steps) {
    const std::optional<Step> step = steps.Next();
    if (!step.has_value()) return;
    in_flight_[place] = *step;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    void* const data = buffers_[place].data();
    const auto bytes = static_cast<unsigned>(load_.which.page_bytes);
    const auto where = files_.At(step->page * load_.which.page_bytes);
    if (step->writes) {
      io_uring_prep_write(sqe, where.file->fd, data, bytes, where.offset);
    } else {
      io_uring_prep_read(sqe, where.file->fd, data, bytes, where.offset);
    }
    io_uring_sqe_set_data64(sqe, place);
    ++outstanding_;
  }

  absl::Status TakeOne(Steps& steps) {
    io_uring_cqe* cqe = nullptr;
    do {  // signals of the program end a wait, too
      const int error = io_uring_submit_and_wait(&ring_, 1);
      if (error < 0 && error != -EINTR) return base::StatusFromErrno(-error, "io_uring_enter");
    } while (io_uring_peek_cqe(&ring_, &cqe) != 0);
    const auto place = static_cast<std::uint32_t>(io_uring_cqe_get_data64(cqe));
    steps.Finished(in_flight_[place], CheckMoved(cqe->res, load_.which.page_bytes));
    io_uring_cqe_seen(&ring_, cqe);
    --outstanding_;
    Prepare(place, steps);
    return absl::OkStatus();
  }

  const io::SpillFiles& files_;
  const Load& load_;
  const PageBuffers& buffers_;
  const InterruptedFn& interrupted_;
  std::vector<Step> in_flight_;
  io_uring ring_{};
  bool usable_ = false;
  std::uint32_t outstanding_ = 0;
};

}  // namespace

absl::StatusOr<Sample> RunPlainLoop(const io::SpillFiles& files,
                                    const Load& load,
                                    const InterruptedFn& interrupted) {
  SLUICE_ASSIGN_OR_RETURN(const auto buffers,
                          PageBuffers::Create(load.depth, load.which.page_bytes));
  PlainRingLoop loop(files, load, *buffers, interrupted);
  SLUICE_RETURN_IF_ERROR(loop.Start());
  return loop.Run();
}

absl::Status CheckIoUring() {
  io_uring ring{};
  const char* call = "io_uring_queue_init";
  int error = io_uring_queue_init(1, &ring, 0);
  if (error == 0) {
    call = "io_uring_enter";
    error = io_uring_get_events(&ring);
    io_uring_queue_exit(&ring);
  }
  if (error >= 0 || error == -EINTR) return absl::OkStatus();
  const bool forbidden = error == -EPERM || error == -ENOSYS || error == -EACCES;
  const char* fix = "";
  if (forbidden)
    fix = ": allow it (kernel.io_uring_disabled = 0, the seccomp profile of a container)";
  if (error == -ENOMEM) fix = ": raise the limit of locked memory (ulimit -l)";
  return absl::FailedPreconditionError(base::ToAbsl(
      fmt::format("io_uring is refused here ({}: {}){}", call, base::ErrnoName(-error), fix)));
}

absl::Status WriteOnce(const io::SpillFiles& files,
                       std::uint64_t bytes,
                       const InterruptedFn& interrupted) {
  const Load load{.which = {.direction = Direction::kWrite, .page_bytes = 1 << 20},
                  .file_bytes = bytes};
  return RunPlainLoop(files, Steps::OnePass(load), interrupted).status();
}

}  // namespace sluice::bench
