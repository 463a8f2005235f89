#include "runtime/optim/save/save_state.h"

#include <utility>

#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::internal {

std::shared_ptr<SaveState> SaveState::Create(std::unique_ptr<optim::StateWriter> writer,
                                             optim::SaveText text,
                                             std::uint64_t parts) {
  return {new SaveState(std::move(writer), std::move(text), parts), [](SaveState* state) {
            if (state->owner_.IsThis()) delete state;
          }};
}

SaveState::SaveState(std::unique_ptr<optim::StateWriter> writer,
                     optim::SaveText text,
                     std::uint64_t parts)
    : writer_(std::move(writer)), text_(std::move(text)), parts_left_(parts) {}

void SaveState::SetAskForRest(std::function<void()> ask) {
  const base::MutexLock lock(mutex_);
  ask_for_rest_ = std::move(ask);
}

std::uint64_t SaveState::Submit(std::vector<optim::SavedBytes> bytes, std::uint64_t parts) {
  const base::MutexLock lock(mutex_);
  jobs_.push_back({.number = ++submitted_, .bytes = std::move(bytes), .parts = parts});
  changed_.NotifyAll();
  return submitted_;
}

void SaveState::WaitFor(std::uint64_t number) {
  if (number == 0) return;  // nothing was submitted, as the save had failed by then
  const base::MutexLock lock(mutex_);
  while (writing_ == number || (written_ < number && !failure_)) changed_.Wait(mutex_);
}

void SaveState::Fail(const absl::Status& status) {
  const base::MutexLock lock(mutex_);
  if (parts_left_ == 0 || failure_) return;
  failure_ = optim::Failure::From(status);
  changed_.NotifyAll();
}

void SaveState::GiveUp() {
  if (owner_.IsThis()) Fail(absl::CancelledError("the save was given up"));
}

bool SaveState::failed() const {
  const base::MutexLock lock(mutex_);
  return failure_.has_value();
}

bool SaveState::has_every_part() const {
  if (!owner_.IsThis()) return true;
  const base::MutexLock lock(mutex_);
  return parts_left_ == 0 || failure_.has_value();
}

bool SaveState::over() const {
  if (!owner_.IsThis()) return true;
  const base::MutexLock lock(mutex_);
  return over_;
}

absl::Status SaveState::Wait() {
  SLUICE_RETURN_IF_ERROR(optim::CheckProcess(owner_));
  const base::MutexLock lock(mutex_);
  if (parts_left_ > 0 && !failure_ && ask_for_rest_) ask_for_rest_();
  while (!over_) changed_.Wait(mutex_);
  return failure_ ? failure_->ToStatus() : absl::OkStatus();
}

void SaveState::Run() {
  while (const std::optional<Job> job = NextJob()) Written(*job, Write(*job));
  End(Commit());
}

std::optional<SaveState::Job> SaveState::NextJob() {
  const base::MutexLock lock(mutex_);
  while (jobs_.empty() && parts_left_ > 0 && !failure_) changed_.Wait(mutex_);
  if (parts_left_ == 0 || failure_) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  writing_ = job.number;
  return job;
}

absl::Status SaveState::Write(const Job& job) {
  for (const optim::SavedBytes& bytes : job.bytes) {
    SLUICE_RETURN_IF_ERROR(writer_->Write(bytes.tensor, bytes.offset, bytes.pieces));
  }
  return absl::OkStatus();
}

void SaveState::Written(const Job& job, const absl::Status& status) {
  const base::MutexLock lock(mutex_);
  writing_ = 0;
  written_ = job.number;
  if (status.ok()) {
    parts_left_ -= job.parts;
  } else if (!failure_) {
    failure_ = optim::Failure::From(status);
  }
  changed_.NotifyAll();
}

absl::Status SaveState::Commit() {
  {
    const base::MutexLock lock(mutex_);
    if (failure_) return failure_->ToStatus();
  }
  text_.hashes = writer_->sums();
  return writer_->Commit(optim::WriteSaveText(text_));
}

void SaveState::End(const absl::Status& status) {
  // The file of a failed save has gone before anybody is told.
  writer_.reset();
  const base::MutexLock lock(mutex_);
  if (!status.ok()) failure_ = optim::Failure::From(status);
  jobs_.clear();
  over_ = true;
  changed_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<SaveThread>> SaveThread::Create(std::shared_ptr<SaveState> state) {
  auto thread = std::unique_ptr<SaveThread>(new SaveThread(std::move(state)));
  SLUICE_ASSIGN_OR_RETURN(thread->thread_, base::StartThread([state = thread->state_] {
                            base::SetUpThread("sluice-save", {}, base::ThreadPriority::kBulk);
                            state->Run();
                          }));
  return thread;
}

SaveThread::~SaveThread() {
  state_->SetAskForRest(nullptr);
  state_->Fail(absl::CancelledError("the optimizer was destroyed before the save was whole"));
  if (thread_.joinable()) thread_.join();
}

void SaveThread::Finish(std::unique_ptr<SaveThread> save) {
  if (save != nullptr) save->state_->Wait().IgnoreError();
}

}  // namespace sluice::internal

namespace sluice {

SaveHandle::SaveHandle() = default;
SaveHandle::SaveHandle(const SaveHandle&) = default;
SaveHandle& SaveHandle::operator=(const SaveHandle&) = default;
SaveHandle::SaveHandle(SaveHandle&&) noexcept = default;
SaveHandle& SaveHandle::operator=(SaveHandle&&) noexcept = default;
SaveHandle::~SaveHandle() = default;
SaveHandle::SaveHandle(std::shared_ptr<internal::SaveState> state) : state_(std::move(state)) {}

bool SaveHandle::HasEveryPart() const { return state_ == nullptr || state_->has_every_part(); }
bool SaveHandle::Ready() const { return state_ == nullptr || state_->over(); }

void SaveHandle::GiveUp() {
  if (state_ != nullptr) state_->GiveUp();
}

absl::Status SaveHandle::Wait() {
  if (state_ != nullptr) return state_->Wait();
  return absl::FailedPreconditionError(
      "this SaveHandle is of no save; StartSave gives one that is");
}

}  // namespace sluice
