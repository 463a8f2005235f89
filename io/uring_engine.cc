#include "io/uring_engine.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "io/mutants.h"
#include "io/signals.h"

namespace sluice::io {
namespace {

// The kernel refuses a submission when it lacks memory for a moment: kRefusalsMax pauses make a
// tenth of a second, after which the requests fail with its errno.
constexpr int kRefusalsMax = 100;
constexpr auto kRefusalPause = std::chrono::milliseconds(1);

std::uint32_t RingEntries(std::uint32_t queue_depth) { return queue_depth + 1; }

// Of the pieces of one request; the kernel takes 1024.
constexpr std::size_t kPiecesMax = 64;

void PrepareOne(io_uring_sqe* sqe, const IoCommand& command) {
  const int fd = command.file->fd;
  const auto bytes = static_cast<unsigned>(command.bytes);
  switch (command.direction) {
    case IoDirection::kRead:
      return io_uring_prep_read(sqe, fd, command.data, bytes, command.offset);
    case IoDirection::kWrite:
      return io_uring_prep_write(sqe, fd, command.data, bytes, command.offset);
    case IoDirection::kWriteBack:
      return io_uring_prep_sync_file_range(sqe, fd, bytes, command.offset, kWriteBackFlags);
    case IoDirection::kDropCache:
      return io_uring_prep_fadvise(sqe, fd, command.offset, bytes, POSIX_FADV_DONTNEED);
  }
}

/// Adjacent commands of one direction, of which `first` is the first.
void PrepareSeveral(io_uring_sqe* sqe, const IoCommand& first, const std::vector<iovec>& pieces) {
  const int fd = first.file->fd;
  const auto count = static_cast<unsigned>(pieces.size());
  if (first.direction == IoDirection::kRead) {
    io_uring_prep_readv(sqe, fd, pieces.data(), count, first.offset);
  } else {
    io_uring_prep_writev(sqe, fd, pieces.data(), count, first.offset);
  }
}

}  // namespace

/// How the thread tells Start whether it has a ring.
class RingStart {
 public:
  std::promise<absl::Status> status;
};

UringEngine::UringEngine(const IoEngineOptions& options) : options_(options) {
  submissions_.resize(options.queue_depth);
  for (Submission& submission : submissions_) free_.push_back(&submission);
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
  const RingOptions options{RingEntries(options_.queue_depth), options_.files};
  absl::StatusOr<RingInfo> created = CreateRing(options, &ring_);
  const bool usable = created.ok();
  if (usable) info_ = *created;
  start.status.set_value(created.status());
  if (!usable) return;
  for (FillRing(); !Finished(); FillRing()) {
    SubmitAndWait();
    Reap();
  }
  io_uring_queue_exit(&ring_);
}

void UringEngine::SubmitChecked(IoRequest* request) {
  base::MutexLock lock(mutex_);
  queue_.Push(request, RequestQueue::Clock::now());
  // From a completion: the thread looks at the queue before it sleeps.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  // Under the lock: once it is free the request may complete and this engine be destroyed.
  if (std::exchange(may_sleep_, false)) Wake();
}

void UringEngine::Hasten(const IoFile& file, std::uint64_t offset, std::uint64_t bytes) {
  base::MutexLock lock(mutex_);
  queue_.Hasten(file, offset, bytes);
}

void UringEngine::Wake() {
  const int error = eventfd_write(wake_fd_.get(), 1);
  SLUICE_CHECK(error == 0, "the wake count of a ring never overflows");
}

void UringEngine::FillRing() {
  if (!wake_armed_) ArmWake();
  for (Submission* submission : TakeWaiting()) Prepare(submission);
}

std::vector<UringEngine::Submission*>& UringEngine::TakeWaiting() {
  taken_.clear();
  base::MutexLock lock(mutex_);
  const RequestQueue::Clock::time_point now = RequestQueue::Clock::now();
  while (!free_.empty() && !queue_.empty()) {
    Submission& submission = *free_.back();
    free_.pop_back();
    TakeInto(submission, queue_.Pop(now));
    while (MayGrow(submission)) {
      IoRequest* const next = queue_.PopAdjacent(*submission.requests.back(), now);
      if (next == nullptr) break;
      TakeInto(submission, next);
    }
    taken_.push_back(&submission);
  }
  // With requests left over, a completion wakes the thread.
  may_sleep_ = queue_.empty();
  return taken_;
}

void UringEngine::TakeInto(Submission& submission, IoRequest* request) {
  const IoCommand& command = request->command;
  submission.requests.push_back(request);
  submission.pieces.push_back({command.data, command.bytes});
  submission.bytes += command.bytes;
}

/// Whether one more request of the size of the last fits.
bool UringEngine::MayGrow(const Submission& submission) const {
  return submission.requests.size() < kPiecesMax &&
         submission.bytes + submission.requests.back()->command.bytes <= options_.merge_bytes_max;
}

void UringEngine::ArmWake() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "a ring has room for its wake read");
  io_uring_prep_read(sqe, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_armed_ = true;
  unsubmitted_.push_back(nullptr);
}

void UringEngine::Prepare(Submission* submission) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "never more in flight than the ring has entries");
  const IoCommand& first = submission->requests.front()->command;
  if (submission->pieces.size() == 1) {
    PrepareOne(sqe, first);
  } else {
    PrepareSeveral(sqe, first, submission->pieces);
    merged_.fetch_add(submission->pieces.size() - 1, std::memory_order_relaxed);
  }
  SetFile(sqe, *first.file);
  io_uring_sqe_set_data(sqe, submission);
  ++in_flight_;
  unsubmitted_.push_back(submission);
}

void UringEngine::SetFile(io_uring_sqe* sqe, const IoFile& file) const {
  if (!info_.files_registered) return;
  const auto found = std::find(options_.files.begin(), options_.files.end(), file.fd);
  if (found == options_.files.end()) return;
  sqe->fd = static_cast<int>(found - options_.files.begin());
  sqe->flags |= IOSQE_FIXED_FILE;
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
  for (Submission* submission : unsubmitted_) {
    if (submission == nullptr) {
      wake_armed_ = false;
    } else {
      completed_.push_back({submission, -error_number});
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
  auto* submission = static_cast<Submission*>(io_uring_cqe_get_data(&cqe));
  if (submission != nullptr) {
    completed_.push_back({submission, cqe.res});
    return;
  }
  SLUICE_CHECK(cqe.res == static_cast<int>(sizeof(wake_count_)) || cqe.res == -EINTR ||
                   cqe.res == -EAGAIN || cqe.res == -ECANCELED,
               "the wake read of a ring yields the count");
  wake_armed_ = false;
}

void UringEngine::RunCompletions() {
  in_flight_ -= static_cast<std::uint32_t>(completed_.size());
  for (const Completed& done : completed_) {
    Deliver(*done.submission, done.result);
    done.submission->requests.clear();
    done.submission->pieces.clear();
    done.submission->bytes = 0;
    free_.push_back(done.submission);
  }
  completed_.clear();
}

/// A count is that of the requests from the first on. An error, or the end of a count, says nothing
/// about those that follow: each of them is tried alone, so that nobody gets what concerns another.
void UringEngine::Deliver(Submission& submission, std::int64_t result) {
  if (submission.requests.size() == 1) return submission.requests.front()->Complete(result);
  for (IoRequest* request : submission.requests) {
    const std::int64_t moved =
        SLUICE_MUTANT("a-merged-request-is-whole")
            ? static_cast<std::int64_t>(request->command.bytes)
            : std::clamp<std::int64_t>(
                  result, 0, static_cast<std::int64_t>(request->command.bytes));
    result -= moved;
    moved > 0 ? request->Complete(moved) : TryAlone(request);
  }
}

void UringEngine::TryAlone(IoRequest* request) {
  request->alone_ = true;
  base::MutexLock lock(mutex_);
  queue_.Push(request, RequestQueue::Clock::now());
}

absl::StatusOr<std::unique_ptr<IoEngine>> MakeUringEngine(const IoEngineOptions& options) {
  auto engine = std::make_unique<UringEngine>(options);
  SLUICE_RETURN_IF_ERROR(engine->Start());
  return engine;
}

}  // namespace sluice::io
