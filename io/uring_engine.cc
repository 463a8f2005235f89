#include "io/uring_engine.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "io/signals.h"

namespace sluice::io {
namespace {

// The kernel refuses a submission when it lacks memory for a moment: kRefusalsMax pauses make a
// tenth of a second, after which the requests fail with its errno.
constexpr int kRefusalsMax = 100;
constexpr auto kRefusalPause = std::chrono::milliseconds(1);

std::uint32_t RingEntries(std::uint32_t queue_depth) { return queue_depth + 1; }

int InitRing(std::uint32_t entries, unsigned flags, io_uring* ring) {
  io_uring_params parameters{};
  parameters.flags = flags;
  return io_uring_queue_init_params(entries, ring, &parameters);
}

}  // namespace

/// How the thread tells Start whether it has a ring.
class RingStart {
 public:
  std::promise<absl::Status> status;
};

UringEngine::UringEngine(const IoEngineOptions& options) : options_(options) {
  unsubmitted_.reserve(options.queue_depth + 1);
  taken_.reserve(options.queue_depth);
  completed_.reserve(options.queue_depth);
}

UringEngine::~UringEngine() {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(mutex_);
    SLUICE_CHECK(queue_.empty(), "an engine is destroyed after its last request");
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

absl::Status UringEngine::Start() {
  wake_fd_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (!wake_fd_.valid()) return base::StatusFromErrno(errno, "eventfd");
  RingStart start;
  std::future<absl::Status> status = start.status.get_future();
  // A ring with SINGLE_ISSUER belongs to the thread that makes it.
  SLUICE_ASSIGN_OR_RETURN(thread_, base::StartThread([this, &start] { Run(start); }));
  absl::Status started = status.get();
  if (!started.ok()) thread_.join();
  return started;
}

void UringEngine::Run(RingStart& start) {
  BlockAllSignals();
  base::SetUpThread("sluice-io", options_.cpus);
  absl::Status created = CreateRing();
  const bool usable = created.ok();
  start.status.set_value(std::move(created));
  if (!usable) return;
  for (FillRing(); !Finished(); FillRing()) {
    SubmitAndWait();
    Reap();
  }
  io_uring_queue_exit(&ring_);
}

absl::Status UringEngine::CreateRing() {
  const std::uint32_t entries = RingEntries(options_.queue_depth);
  int error = InitRing(entries, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &ring_);
  // Kernels before 6.1 do not know the flags.
  if (error == -EINVAL) error = InitRing(entries, 0, &ring_);
  if (error < 0) return base::StatusFromErrno(-error, "io_uring_queue_init");
  // Queues as small as these are charged to memlock once; a child process must not share them.
  io_uring_ring_dontfork(&ring_);
  absl::Status probed = ProbeOperations();
  if (!probed.ok()) io_uring_queue_exit(&ring_);
  return probed;
}

absl::Status UringEngine::ProbeOperations() {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return absl::UnimplementedError("io_uring cannot be probed");
  const bool supported = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                         io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  if (!supported) return absl::UnimplementedError("io_uring lacks the read and write operations");
  return absl::OkStatus();
}

void UringEngine::SubmitChecked(IoRequest* request) {
  base::MutexLock lock(mutex_);
  queue_.Push(request);
  // From a completion: the thread looks at the queue before it sleeps.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  // Under the lock: once it is free the request may complete and this engine be destroyed.
  if (std::exchange(may_sleep_, false)) Wake();
}

void UringEngine::Wake() {
  const int error = eventfd_write(wake_fd_.get(), 1);
  SLUICE_CHECK(error == 0, "the wake count of a ring never overflows");
}

void UringEngine::FillRing() {
  if (!wake_armed_) ArmWake();
  for (IoRequest* request : TakeWaiting()) Prepare(request);
}

std::vector<IoRequest*>& UringEngine::TakeWaiting() {
  taken_.clear();
  base::MutexLock lock(mutex_);
  while (in_flight_ + taken_.size() < options_.queue_depth && !queue_.empty()) {
    taken_.push_back(queue_.Pop());
  }
  // With requests left over, a completion wakes the thread.
  may_sleep_ = queue_.empty();
  return taken_;
}

void UringEngine::ArmWake() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "a ring has room for its wake read");
  io_uring_prep_read(sqe, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_armed_ = true;
  unsubmitted_.push_back(nullptr);
}

void UringEngine::Prepare(IoRequest* request) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "never more in flight than the ring has entries");
  const IoCommand& command = request->command;
  const auto bytes = static_cast<unsigned>(command.bytes);
  if (command.direction == IoDirection::kRead) {
    io_uring_prep_read(sqe, command.file->fd, command.data, bytes, command.offset);
  } else {
    io_uring_prep_write(sqe, command.file->fd, command.data, bytes, command.offset);
  }
  io_uring_sqe_set_data(sqe, request);
  ++in_flight_;
  unsubmitted_.push_back(request);
}

bool UringEngine::Finished() {
  base::MutexLock lock(mutex_);
  return stopping_ && queue_.empty() && in_flight_ == 0;
}

void UringEngine::SubmitAndWait() {
  const int submitted = io_uring_submit_and_wait(&ring_, 1);
  if (submitted >= 0) {
    unsubmitted_.erase(unsubmitted_.begin(), unsubmitted_.begin() + submitted);
    refusals_in_a_row_ = 0;
  } else if (submitted != -EINTR) {
    SubmitRefused(-submitted);
  }
}

void UringEngine::SubmitRefused(int error_number) {
  // What is in flight may hold the memory that the kernel lacks: let it finish.
  io_uring_get_events(&ring_);
  std::this_thread::sleep_for(kRefusalPause);
  if (++refusals_in_a_row_ >= kRefusalsMax) FailUnsubmitted(error_number);
}

void UringEngine::FailUnsubmitted(int error_number) {
  // The kernel reads the submission queue only inside io_uring_enter, which this thread alone
  // calls: what it has not taken can be taken back by moving the tail.
  const unsigned head = *ring_.sq.khead;
  ring_.sq.sqe_head = head;
  ring_.sq.sqe_tail = head;
  io_uring_smp_store_release(ring_.sq.ktail, head);
  for (IoRequest* request : unsubmitted_) {
    if (request == nullptr) {
      wake_armed_ = false;
    } else {
      completed_.push_back({request, -error_number});
    }
  }
  unsubmitted_.clear();
  refusals_in_a_row_ = 0;  // what comes next has its own patience
}

void UringEngine::Reap() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    TakeCompletion(*cqe);
    ++count;
  }
  // First the queue, then the callbacks: they may take long and may submit.
  io_uring_cq_advance(&ring_, count);
  RunCompletions();
}

void UringEngine::TakeCompletion(const io_uring_cqe& cqe) {
  auto* request = static_cast<IoRequest*>(io_uring_cqe_get_data(&cqe));
  if (request != nullptr) {
    completed_.push_back({request, cqe.res});
    return;
  }
  SLUICE_CHECK(cqe.res == static_cast<int>(sizeof(wake_count_)) || cqe.res == -EINTR ||
                   cqe.res == -EAGAIN || cqe.res == -ECANCELED,
               "the wake read of a ring yields the count");
  wake_armed_ = false;
}

void UringEngine::RunCompletions() {
  in_flight_ -= static_cast<std::uint32_t>(completed_.size());
  for (const Completed& done : completed_) done.request->Complete(done.result);
  completed_.clear();
}

absl::StatusOr<std::unique_ptr<IoEngine>> MakeUringEngine(const IoEngineOptions& options) {
  auto engine = std::make_unique<UringEngine>(options);
  SLUICE_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace sluice::io
