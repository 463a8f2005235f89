#include "io/engine/uring_engine.h"

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
#include "io/engine/signals.h"

namespace sluice::io {
namespace {

// The kernel refuses a submission when it lacks memory for a moment: kRefusalsMax pauses make a
// tenth of a second, after which the requests fail with its errno.
constexpr int kRefusalsMax = 100;
constexpr auto kRefusalPause = std::chrono::milliseconds(1);

/// Size from which requests are submitted one by one. The kernel would merge adjacent ones that it
/// gets together, even of a few MiB, and the disk could not work on several.
constexpr std::uint64_t kAloneBytes = std::uint64_t{512} << 10;

std::uint32_t RingEntries(std::uint32_t queue_depth) { return queue_depth + 1; }

}  // namespace

/// Message of the thread to Start: whether it has a ring.
class RingStart {
 public:
  std::promise<absl::Status> status;
};

UringEngine::UringEngine(const IoEngineOptions& options) : options_(options) {
  batches_.resize(std::size_t{2} * options.queue_depth);
  for (UringBatch& batch : batches_) free_.push_back(&batch);
  unsubmitted_.reserve(options.queue_depth + 1);
  taken_.reserve(options.queue_depth);
  completed_.reserve(batches_.size());
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
  base::SetUpThread("sluice-io", options_.cpus, base::ThreadPriority::kPrompt);
  const RingOptions options{RingEntries(options_.queue_depth), options_.files};
  absl::StatusOr<RingInfo> created = CreateRing(options, &ring_);
  const bool usable = created.ok();
  if (usable) info_ = *created;
  start.status.set_value(created.status());
  if (!usable) return;
  SetUpNumbers();
  for (FillRing(); !Finished(); FillRing()) {
    Submit(MaySleep() ? 1 : 0);
    Reap();
  }
  CloseRing(&ring_);
}

void UringEngine::SetUpNumbers() {
  if (info_.files_registered) numbers_.files = options_.files;
  if (!info_.buffers_reserved) return;
  buffers_.emplace(&ring_, RingBuffers::kPieceBytes, options_.registered_bytes_max);
  numbers_.buffers = &*buffers_;
}

RegisteredMemory UringEngine::RegisterMemory(std::span<std::byte> memory) {
  if (!info_.buffers_reserved) return {.reason = "the kernel registers no buffers one by one"};
  RegisteredMemory registered;
  calls_.Run([&] { registered = buffers_->Add(memory); }, [this] { Wake(); });
  return registered;
}

void UringEngine::UnregisterMemory(std::span<std::byte> memory) {
  if (info_.buffers_reserved) calls_.Run([&] { buffers_->Remove(memory); }, [this] { Wake(); });
}

void UringEngine::SubmitChecked(IoRequest* request) {
  base::MutexLock lock(mutex_);
  queue_.Push(request, RequestQueue::Clock::now());
  // The thread itself, in a completion, looks at the queue before it sleeps.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  // The lock is still held. Once it is free the request may complete and this engine be destroyed.
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
  // Prepared requests may name memory by a number that a call changes. So calls wait for them.
  if (unsubmitted_.empty()) calls_.RunAll();
  if (!wake_armed_) ArmWake();
  for (UringBatch* batch : TakeWaiting()) {
    Prepare(batch);
    // No submission here while the kernel refuses: a pause follows each try.
    if (batch->bytes() >= kAloneBytes && refusals_in_a_row_ == 0) Submit(0);
  }
}

/// Whether the kernel may have one more request.
bool UringEngine::HasRoom() const {
  if (in_flight_ >= options_.queue_depth) return false;
  return in_flight_ < kRequestsLeast || bytes_in_flight_ < options_.bytes_in_flight_max;
}

std::vector<UringBatch*>& UringEngine::TakeWaiting() {
  taken_.clear();
  base::MutexLock lock(mutex_);
  const RequestQueue::Clock::time_point now = RequestQueue::Clock::now();
  while (HasRoom() && !free_.empty() && !queue_.empty()) {
    UringBatch& batch = *free_.back();
    free_.pop_back();
    batch.Take(queue_.Pop(now));
    while (batch.MayTakeMore(options_.merge_bytes_max)) {
      IoRequest* const next = queue_.PopAdjacent(batch.last(), now);
      if (next == nullptr) break;
      batch.Take(next);
    }
    taken_.push_back(&batch);
    ++in_flight_;
    bytes_in_flight_ += batch.bytes();
  }
  return taken_;
}

/// Whether the thread may sleep: there is no call, and no request that the ring has room for.
bool UringEngine::MaySleep() {
  if (!calls_.empty()) return false;
  base::MutexLock lock(mutex_);
  if (!queue_.empty() && HasRoom()) return false;
  // A completion wakes the thread if requests are left over.
  may_sleep_ = queue_.empty();
  return true;
}

void UringEngine::ArmWake() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "a ring has room for its wake read");
  io_uring_prep_read(sqe, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
  io_uring_sqe_set_data(sqe, nullptr);
  wake_armed_ = true;
  unsubmitted_.push_back(nullptr);
}

void UringEngine::Prepare(UringBatch* batch) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  SLUICE_CHECK(sqe != nullptr, "never more in flight than the ring has entries");
  PrepareEntry(numbers_, batch->first_command(), batch->pieces(), sqe);
  merged_.fetch_add(batch->pieces().size() - 1, std::memory_order_relaxed);
  io_uring_sqe_set_data(sqe, batch);
  unsubmitted_.push_back(batch);
}

bool UringEngine::Finished() {
  base::MutexLock lock(mutex_);
  return stopping_ && queue_.empty() && in_flight_ == 0;
}

void UringEngine::Submit(unsigned completions_wanted) {
  const int submitted = io_uring_submit_and_wait(&ring_, completions_wanted);
  if (submitted >= 0) {
    unsubmitted_.erase(unsubmitted_.begin(), unsubmitted_.begin() + submitted);
    refusals_in_a_row_ = 0;
  } else if (submitted != -EINTR) {
    SubmitRefused(-submitted);
  }
}

void UringEngine::SubmitRefused(int error_number) {
  // Requests in flight may hold the memory that the kernel lacks, so they must finish first.
  io_uring_get_events(&ring_);
  std::this_thread::sleep_for(kRefusalPause);
  if (++refusals_in_a_row_ >= kRefusalsMax) FailUnsubmitted(error_number);
}

void UringEngine::FailUnsubmitted(int error_number) {
  // The kernel reads the submission queue only inside io_uring_enter, which this thread alone
  // calls. So a move of the tail takes back the entries that it has not taken.
  const unsigned head = *ring_.sq.khead;
  ring_.sq.sqe_head = head;
  ring_.sq.sqe_tail = head;
  io_uring_smp_store_release(ring_.sq.ktail, head);
  for (UringBatch* batch : unsubmitted_) {
    if (batch == nullptr) {
      wake_armed_ = false;
    } else {
      NoteCompleted(batch, -error_number);
    }
  }
  unsubmitted_.clear();
  refusals_in_a_row_ = 0;  // later requests have their own patience
}

void UringEngine::Reap() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    TakeCompletion(*cqe);
    ++count;
  }
  io_uring_cq_advance(&ring_, count);
  if (completed_.empty()) return;
  // The disk first: callbacks wake workers, which takes long, and meanwhile it has its next
  // requests.
  FillRing();
  if (!unsubmitted_.empty()) Submit(0);
  RunCompletions();
}

void UringEngine::TakeCompletion(const io_uring_cqe& cqe) {
  auto* batch = static_cast<UringBatch*>(io_uring_cqe_get_data(&cqe));
  if (batch != nullptr) return NoteCompleted(batch, cqe.res);
  SLUICE_CHECK(cqe.res == static_cast<int>(sizeof(wake_count_)) || cqe.res < 0,
               "the wake read of a ring yields the count");
  // The wake read is armed again. Memory that the kernel lacked (ENOMEM) may be there a moment
  // later.
  if (cqe.res < 0) std::this_thread::sleep_for(kRefusalPause);
  wake_armed_ = false;
}

void UringEngine::NoteCompleted(UringBatch* batch, std::int64_t result) {
  completed_.push_back({batch, result});
  --in_flight_;
  bytes_in_flight_ -= batch->bytes();
}

void UringEngine::RunCompletions() {
  for (const Completed& done : completed_) {
    done.batch->Deliver(done.result, [this](IoRequest* request) { TryAlone(request); });
    free_.push_back(done.batch);
  }
  completed_.clear();
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
