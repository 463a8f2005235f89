#include "python/binding/background/copier.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "python/binding/status.h"
#include "python/binding/waiting.h"
#include "sluice/freed_memory.h"

namespace sluice::python {
namespace {

/// Most bytes between two looks at the flag that gives a copy up.
constexpr std::uint64_t kSliceBytes = std::uint64_t{16} << 20;
/// The time after which a waiting thread looks for signals.
constexpr std::chrono::milliseconds kLookInterval{50};

[[noreturn]] void RaiseEnded() {
  Raise(absl::FailedPreconditionError(
      "saved tensors are copied no more: the runtime, or the interpreter, is ending"));
}

/// The access of a copy out, as Runtime::Read has it.
Access ReadOf(const TensorState& tensor) {
  Access access{.tensor = tensor.id()};
  access.tier = tensor.lowest() == TierKind::kHbm ? kHbm0 : kDram0;
  access.contiguous = false;
  return access;
}

}  // namespace

std::shared_ptr<Copier> Copier::Create(std::shared_ptr<Session> session, CopyDirection direction) {
  (void)session->runtime();
  // The thread does not exist in a child of fork. There the destructor of `changed_` would wait for
  // the thread without end.
  const auto unless_in_child = [](Copier* copier) {
    if (!copier->session_->in_child()) delete copier;
  };
  const std::shared_ptr<Copier> copier(new Copier(std::move(session), direction), unless_in_child);
  try {
    copier->thread_ = std::thread([raw = copier.get()] { raw->Run(); });
  } catch (const std::system_error& error) {
    Raise(absl::ResourceExhaustedError(std::string("no thread for copies: ") + error.what()));
  }
  return copier;
}

Copier::~Copier() { Stop(); }

std::unique_ptr<BackgroundCopy> Copier::Start(const std::shared_ptr<TensorState>& tensor,
                                              const nanobind::object& object,
                                              bool urgent) {
  const std::shared_ptr<Runtime> runtime = session_->runtime();
  tensor->RefuseFreed();
  ReleaseEnded();
  Buffer buffer(object, direction_);
  if (buffer.bytes().size() != tensor->bytes()) {
    Raise(absl::InvalidArgumentError("tensor '" + tensor->name() + "' has " +
                                     std::to_string(tensor->bytes()) + " bytes, and the buffer " +
                                     std::to_string(buffer.bytes().size())));
  }
  if (direction_ == CopyDirection::kOut) {
    const Access access = ReadOf(*tensor);
    RaiseIfError(WithoutGil([&] { return runtime->Prefetch({&access, 1}); }));
  }
  auto job = std::make_shared<CopyJob>();
  job->runtime = runtime;
  job->tensor = tensor;
  job->bytes = buffer.bytes();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) RaiseEnded();
    queue_.insert(urgent ? queue_.begin() : queue_.end(), job);
    bytes_ += job->bytes.size();
  }
  changed_.notify_all();
  return std::make_unique<BackgroundCopy>(shared_from_this(), std::move(job), std::move(buffer));
}

void Copier::Run() {
  while (const std::shared_ptr<CopyJob> job = Next()) End(*job, Copy(*job));
}

std::shared_ptr<CopyJob> Copier::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
  if (stopped_) return nullptr;
  std::shared_ptr<CopyJob> job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

absl::Status Copier::Copy(const CopyJob& job) const {
  for (std::uint64_t at = 0; at < job.bytes.size(); at += kSliceBytes) {
    if (job.cancelled) return absl::CancelledError("the copy was given up");
    const std::uint64_t size = std::min(kSliceBytes, job.bytes.size() - at);
    const std::span<std::byte> slice = job.bytes.subspan(at, size);
    const TensorId id = job.tensor->id();
    const absl::Status copied = direction_ == CopyDirection::kIn ? job.runtime->Write(id, slice, at)
                                                                 : job.runtime->Read(id, slice, at);
    if (!copied.ok()) return copied;
  }
  return absl::OkStatus();
}

void Copier::End(CopyJob& job, absl::Status status) {
  // A tensor that was dropped meanwhile is freed before the copy counts as ended.
  job.tensor.reset();
  job.runtime.reset();
  {
    const std::lock_guard lock(mutex_);
    job.status = std::move(status);
    job.ended = true;
    bytes_ -= job.bytes.size();
  }
  changed_.notify_all();
}

bool Copier::Cancel(CopyJob& job) {
  job.cancelled = true;
  if (job.ended || session_->in_child()) return true;
  const std::lock_guard lock(mutex_);
  const auto same = [&](const auto& queued) { return queued.get() == &job; };
  const auto queued = std::find_if(queue_.begin(), queue_.end(), same);
  if (queued == queue_.end()) return job.ended;
  bytes_ -= job.bytes.size();
  queue_.erase(queued);  // the caller's pointer keeps the job
  changed_.notify_all();
  return true;
}

template <typename Reached>
void Copier::WaitUntil(const Reached& reached) {
  StopIfLeaving();
  session_->RefuseChild();
  while (true) {
    const bool done = WithoutGil([&] {
      std::unique_lock lock(mutex_);
      return changed_.wait_for(lock, kLookInterval, reached);
    });
    if (done) return;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

void Copier::WaitForEnd(const CopyJob& job) {
  if (!job.ended) WaitUntil([&] { return job.ended.load() || stopped_; });
  if (!job.ended) Raise(absl::CancelledError("the copies to and from tensors have ended"));
  RaiseIfError(job.status);
}

void Copier::Expect(std::uint64_t bytes) {
  (void)session_->runtime();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) RaiseEnded();
  }
  expected_bytes_ += bytes;
  if (expected_bytes_ < return_due_) return;
  expected_bytes_ = 0;
  return_due_ = WithoutGil([] { return ReturnFreedMemory().next_bytes; });
}

void Copier::WaitForRoom(std::uint64_t bytes_max) {
  WaitUntil([&] { return bytes_ <= bytes_max || stopped_; });
}

void Copier::Stop() {
  if (session_->in_child()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  WithoutGil([&] {
    const std::lock_guard lock(end_mutex_);
    if (thread_.joinable()) thread_.join();
  });
  const auto kept = std::exchange(kept_, {});
}

void Copier::Keep(std::shared_ptr<CopyJob> job, Buffer buffer) {
  kept_.push_back(std::make_unique<Kept>(Kept{std::move(job), std::move(buffer)}));
}

void Copier::ReleaseEnded() {
  std::vector<std::unique_ptr<Kept>> ended;
  const auto runs = [](const auto& kept) { return !kept->job->ended; };
  const auto first = std::stable_partition(kept_.begin(), kept_.end(), runs);
  std::move(first, kept_.end(), std::back_inserter(ended));
  kept_.erase(first, kept_.end());
}

BackgroundCopy::~BackgroundCopy() {
  if (!copier_->Cancel(*job_)) copier_->Keep(job_, std::move(buffer_));
}

void BackgroundCopy::Wait() { copier_->WaitForEnd(*job_); }

void BindCopier(nanobind::module_& module) {
  namespace nb = nanobind;
  nb::class_<BackgroundCopy>(module, "BackgroundCopy")
      .def_prop_ro("ended", &BackgroundCopy::ended)
      .def("wait", &BackgroundCopy::Wait);
  nb::class_<Copier>(module, "Copier")
      .def("start", &Copier::Start, nb::arg("tensor"), nb::arg("buffer"), nb::arg("urgent"))
      .def("expect", &Copier::Expect, nb::arg("bytes"))
      .def("wait_for_room", &Copier::WaitForRoom)
      .def("stop", &Copier::Stop);
  module.def("copier_in", [](std::shared_ptr<Session> session) {
    return Copier::Create(std::move(session), CopyDirection::kIn);
  });
  module.def("copier_out", [](std::shared_ptr<Session> session) {
    return Copier::Create(std::move(session), CopyDirection::kOut);
  });
}

}  // namespace sluice::python
