#include "workloads/gpt/training/trainer_saves.h"

#include <utility>

#include "fmt/format.h"
#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/trainer_impl.h"

namespace sluice::gpt {
namespace {

absl::Status CheckSavable(const OffloadedOptimizer* optimizer, int steps, std::int64_t updates) {
  if (optimizer == nullptr) return absl::UnimplementedError("not a paged run");
  if (steps == updates) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} of {} steps made no update, which a save does not hold", steps - updates, steps));
}

}  // namespace

void TrainerSaves::Want(int step, const std::string& directory, std::string_view note) {
  wanted_ = Wanted{step, directory, std::string(note)};
}

void TrainerSaves::StartWanted() {
  if (!wanted_) return;
  // The optimizer would complete it without telling how it went.
  Wait().IgnoreError();
  absl::StatusOr<SaveHandle> handle = optimizer_.StartSave(wanted_->directory, wanted_->note);
  if (!handle.ok()) return FailWanted(handle.status());
  started_ = Started{*std::exchange(wanted_, std::nullopt), *std::move(handle)};
}

void TrainerSaves::FailWanted(absl::Status status) {
  const Wanted wanted = *std::exchange(wanted_, std::nullopt);
  finished_.push_back({wanted.step, wanted.directory, std::move(status)});
}

void TrainerSaves::GiveUp(int step) {
  if (wanted_ && wanted_->step == step) FailWanted(absl::CancelledError("the save was given up"));
  if (started_ && started_->of.step == step) started_->handle.GiveUp();
}

absl::Status TrainerSaves::Wait() {
  if (!started_) return absl::OkStatus();
  Started started = *std::exchange(started_, std::nullopt);
  absl::Status status = started.handle.Wait();
  finished_.push_back({started.of.step, std::move(started.of.directory), status});
  return status;
}

absl::Status TrainerSaves::LastStatus() const {
  return finished_.empty() ? absl::OkStatus() : finished_.back().status;
}

std::vector<FinishedSave> TrainerSaves::TakeFinished() {
  if (started_ && started_->handle.Ready()) Wait().IgnoreError();
  return std::exchange(finished_, {});
}

bool TrainerSaves::AreWrittenBy(UpdateTime update) const {
  if (update == UpdateTime::kNever) return false;
  if (started_ && !started_->handle.HasEveryPart()) return true;
  return wanted_ && (update == UpdateTime::kNow || !clips_);
}

absl::Status Trainer::Impl::SaveState(const std::string& directory, std::string_view note) {
  GPT_RETURN_IF_ERROR(CheckSavable(updater_->optimizer(), step_, updates_));
  GPT_RETURN_IF_ERROR(LeaveIteration());
  return updater_->optimizer()->Save(directory, note);
}

absl::Status Trainer::Impl::LoadState(const std::string& directory) {
  if (updater_->optimizer() == nullptr) return absl::UnimplementedError("not a paged run");
  GPT_RETURN_IF_ERROR(LeaveIteration());
  GPT_RETURN_IF_ERROR(updater_->optimizer()->Load(directory));
  updates_ = updater_->optimizer()->step();
  step_ = static_cast<int>(updates_);
  return absl::OkStatus();
}

absl::Status Trainer::Impl::StartSave(const std::string& directory, std::string_view note) {
  GPT_RETURN_IF_ERROR(CheckSavable(updater_->optimizer(), step_, updates_));
  GPT_RETURN_IF_ERROR(broken_);
  if (saves_->wanted()) FinishSave().IgnoreError();
  GPT_RETURN_IF_ERROR(broken_);
  saves_->Want(step_, directory, note);
  if (!updater_->pending()) saves_->StartWanted();
  return absl::OkStatus();
}

absl::Status Trainer::Impl::FinishSave() {
  if (saves_ == nullptr || !saves_->unfinished()) return absl::OkStatus();
  const bool wanted = saves_->wanted();
  // An op that was asked for before another one failed is given up with it.
  if (!broken_.ok()) memory_.Abandon();
  absl::Status left = LeaveIteration();
  // The broken step need not be the one that the save is of.
  if (saves_->wanted() && updater_->pending()) left = updater_->Complete();
  if (saves_->wanted() && updater_->pending()) {
    saves_->FailWanted(left);
  } else {
    saves_->StartWanted();
  }
  const absl::Status waited = saves_->Wait();
  return wanted ? saves_->LastStatus() : waited;
}

}  // namespace sluice::gpt
