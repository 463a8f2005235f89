#include "tools/train/state/state_saver.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {

StateSaver::StateSaver(StateSaverOptions options, int step)
    : options_(std::move(options)),
      clock_(options_.every, options_.now()),
      steps_before_(step),
      saved_step_(step) {}

absl::Status StateSaver::SaveIfDue(int step) {
  if (!saves()) return absl::OkStatus();
  absl::Status status = Collect();
  if (!clock_.Due(step, options_.now())) return status;
  status.Update(options_.start == nullptr ? SaveNow(step) : Start(step));
  return status;
}

absl::Status StateSaver::SaveNow(int step) {
  if (!saves()) return absl::OkStatus();
  // The outcome of an older save no longer matters if this one exists.
  FinishBegun().IgnoreError();
  if (step == saved_step_) return absl::OkStatus();
  const absl::StatusOr<std::string> place = PlaceOf(step);
  const absl::Status saved = place.ok() ? options_.save(*place) : place.status();
  return End({step, place.value_or(""), saved});
}

absl::Status StateSaver::Start(int step) {
  const absl::StatusOr<std::string> place = PlaceOf(step);
  clock_.OnSave(options_.now());
  begun_step_ = step;
  if (!place.ok()) return Failed(place.status(), step);
  const absl::Status started = options_.start(*place);
  return started.ok() ? started : End({step, *place, started});
}

absl::Status StateSaver::Collect() {
  absl::Status first;
  if (options_.take == nullptr) return first;
  for (const gpt::FinishedSave& save : options_.take()) first.Update(End(save));
  return first;
}

absl::Status StateSaver::End(const gpt::FinishedSave& save) {
  clock_.OnSave(options_.now());
  StateDirectory* const directory = options_.directory;
  if (!save.status.ok() && directory != nullptr) directory->GiveUpSave(save.step);
  if (!save.status.ok()) return Failed(save.status, save.step);
  const absl::Status ended =
      directory == nullptr ? absl::OkStatus() : directory->EndSave(save.step);
  if (!ended.ok() && !directory->IsGood(save.step)) return Failed(ended, save.step);
  saved_step_ = save.step;
  return base::Annotate(
      ended, "--state: saved step " + std::to_string(save.step) + ", but an older save stays");
}

absl::Status StateSaver::FinishBegun() {
  if (options_.finish != nullptr) options_.finish();
  return Collect();
}

absl::StatusOr<std::string> StateSaver::PlaceOf(int step) {
  if (options_.directory == nullptr) return options_.in_place;
  return options_.directory->BeginSave(step);
}

absl::StatusOr<std::string> StateSaver::OnLossNotFinite(int step) {
  return Withdraw(step - 1, "the loss after it is no finite number");
}

absl::StatusOr<std::string> StateSaver::OnParametersNotFinite(int step) {
  return Withdraw(step, "its parameters are no finite numbers");
}

absl::StatusOr<std::string> StateSaver::Withdraw(int step, std::string_view why) {
  const bool begun = begun_step_ == step && saved_step_ < step;
  if (options_.give_up != nullptr) options_.give_up(step);
  // One before it may still be written.
  FinishBegun().IgnoreError();
  const bool is_there = saved_step_ == step && saved_step_ > steps_before_;
  const bool named = options_.directory != nullptr;
  if (is_there && !named) return std::string();
  if (!is_there && !begun) return std::string();
  if (is_there) {
    SLUICE_ASSIGN_OR_RETURN(saved_step_, options_.directory->Withdraw(step));
  }
  return fmt::format("{}: the save after step {} is {}, as {}; {}",
                     named ? "--state" : "--save-state",
                     step,
                     is_there ? "removed" : "given up",
                     why,
                     saved_step_ > 0 ? Standing() : "there is none before it");
}

std::string StateSaver::Standing() const {
  if (saved_step_ == 0) return "there is no older one of this run";
  const bool elsewhere = saved_step_ == steps_before_ && !options_.resumed_from.empty();
  return fmt::format("that of step {}{}{} stands",
                     saved_step_,
                     elsewhere ? " in " : "",
                     elsewhere ? options_.resumed_from : "");
}

absl::Status StateSaver::Failed(const absl::Status& why, int step) const {
  const bool named = options_.directory != nullptr;
  return absl::Status(
      why.code(),
      base::ToAbsl(fmt::format("{} {}: the save after step {} failed: {}; {}",
                               named ? "--state" : "--save-state",
                               named ? options_.directory->path() : options_.in_place,
                               step,
                               base::ToStd(why.message()),
                               Standing())));
}

}  // namespace sluice::tools
