#include "runtime/device/cuda/cuda_copies.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "base/check.h"
#include "base/status.h"

namespace sluice::device {
namespace {

/// Copies in one call and behind one event: enough for the driver's gain, few enough that the first
/// is not long done before anyone hears of it.
constexpr std::size_t kGroupCopies = 8;
constexpr std::uint64_t kGroupBytes = std::uint64_t{16} << 20;
/// Groups on the stream at once: the second begins when the first ends, without a gap.
constexpr std::size_t kGroups = 3;

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCopies>> CudaCopies::Create(const CudaContextShare& share,
                                                               CudaEventPool& events,
                                                               Direction direction) {
  CudaStream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(share.Check(share.api().CreateStream(&stream), "cuStreamCreate"));
  return absl::WrapUnique(new CudaCopies(share, events, direction, stream));
}

CudaCopies::~CudaCopies() {
  SLUICE_CHECK(idle(), "copies end before their stream");
  // A stream that the driver keeps is idle.
  share_.Check(share_.api().DestroyStream(stream_), "cuStreamDestroy").IgnoreError();
}

bool CudaCopies::idle() const {
  const base::MutexLock lock(running_mutex_);
  return waiting_.empty() && running_.empty();
}

bool CudaCopies::HasRoom() const {
  const base::MutexLock lock(running_mutex_);
  return running_.size() < kGroups;
}

bool CudaCopies::Start() {
  bool started = false;
  for (; !waiting_.empty() && HasRoom(); started = true) {
    Group group = TakeGroup();
    absl::Status status = Enqueue(group);
    absl::StatusOr<CudaEvent> event = events_.Record(stream_);
    if (event.ok()) {
      // Copies enqueued before an error run: their memory is used until the event says otherwise.
      group.event = *event;
      group.error = std::move(status);
      Run(std::move(group));
      continue;
    }
    AwaitStream().IgnoreError();
    Finish(std::move(group), status.ok() ? event.status() : status);
  }
  return started;
}

void CudaCopies::Run(Group group) {
  std::vector<StartedFn> started;
  for (Job& job : group.jobs) {
    if (group.error.ok() && job.started) started.push_back(std::move(job.started));
  }
  {
    const base::MutexLock lock(running_mutex_);
    running_.push_back(std::move(group));
  }
  for (StartedFn& tell : started) tell();
}

bool CudaCopies::HasTarget(const Group& group, std::span<const std::byte* const> targets) {
  return std::any_of(group.jobs.begin(), group.jobs.end(), [&](const Job& job) {
    return std::binary_search(
        targets.begin(), targets.end(), static_cast<const std::byte*>(job.copy.to));
  });
}

absl::Status CudaCopies::PutBehind(CudaStream stream, std::span<const std::byte* const> targets) {
  SLUICE_RETURN_IF_ERROR(share_.health().status());
  const base::MutexLock lock(running_mutex_);
  const auto last = std::find_if(running_.rbegin(), running_.rend(), [&](const Group& group) {
    return HasTarget(group, targets);
  });
  if (last == running_.rend()) return absl::OkStatus();  // the group's copies are done
  return share_.Check(share_.api().WaitEvent(stream, last->event), "cuStreamWaitEvent");
}

CudaCopies::Group CudaCopies::TakeGroup() {
  Group group;
  std::uint64_t bytes = 0;
  while (!waiting_.empty() && group.jobs.size() < kGroupCopies) {
    bytes += waiting_.front().copy.bytes;
    if (!group.jobs.empty() && bytes > kGroupBytes) break;
    group.jobs.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return group;
}

absl::Status CudaCopies::Enqueue(const Group& group) {
  SLUICE_RETURN_IF_ERROR(share_.health().status());
  if (batches_ && group.jobs.size() > 1) {
    absl::Status batched = EnqueueBatch(group.jobs);
    if (!absl::IsUnimplemented(batched)) return batched;
    batches_ = false;
  }
  for (const Job& job : group.jobs) SLUICE_RETURN_IF_ERROR(EnqueueOne(job));
  return absl::OkStatus();
}

absl::Status CudaCopies::EnqueueOne(const Job& job) {
  CudaApi& api = share_.api();
  if (job.fill.has_value()) {
    return share_.Check(api.Fill(job.copy.to, *job.fill, job.copy.bytes, stream_),
                        "cuMemsetD8Async");
  }
  if (direction_ == Direction::kIn) {
    return share_.Check(api.CopyIn(job.copy, stream_), "cuMemcpyHtoDAsync");
  }
  return share_.Check(api.CopyOut(job.copy, stream_), "cuMemcpyDtoHAsync");
}

/// Consecutive copies in one call each, fills alone.
absl::Status CudaCopies::EnqueueBatch(const std::vector<Job>& jobs) {
  std::vector<CudaCopy> copies;
  const auto flush = [&] {
    if (copies.empty()) return absl::OkStatus();
    const CudaCode code = share_.api().CopyBatch(std::exchange(copies, {}), stream_);
    return share_.Check(code, "cuMemcpyBatchAsync");
  };
  for (const Job& job : jobs) {
    if (!job.fill.has_value()) {
      copies.push_back(job.copy);
      continue;
    }
    SLUICE_RETURN_IF_ERROR(flush());
    SLUICE_RETURN_IF_ERROR(EnqueueOne(job));
  }
  return flush();
}

absl::Status CudaCopies::AwaitStream() {
  // Synchronising is the only way, without an event, to learn that the memory is free again. A dead
  // GPU answers at once.
  return share_.Check(share_.api().SynchronizeStream(stream_), "cuStreamSynchronize");
}

bool CudaCopies::Poll() {
  bool completed = false;
  while (const std::optional<CudaEvent> oldest = OldestEvent()) {
    const absl::StatusOr<bool> done = events_.IsDone(*oldest);
    if (done.ok() && !*done) break;
    // Work may be behind the copies already: a query that fails says nothing of them.
    const absl::Status status = done.ok() ? absl::OkStatus() : AwaitStream();
    Group group = TakeOldest();
    events_.Return(group.event);
    const absl::Status error = group.error.ok() ? status : group.error;
    Finish(std::move(group), error);
    completed = true;
  }
  return completed;
}

std::optional<CudaEvent> CudaCopies::OldestEvent() const {
  const base::MutexLock lock(running_mutex_);
  return running_.empty() ? std::nullopt : std::optional(running_.front().event);
}

CudaCopies::Group CudaCopies::TakeOldest() {
  const base::MutexLock lock(running_mutex_);
  Group group = std::move(running_.front());
  running_.pop_front();
  return group;
}

void CudaCopies::Finish(Group group, const absl::Status& status) {
  for (Job& job : group.jobs) job.done(status);
}

}  // namespace sluice::device
