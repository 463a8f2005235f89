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
  if (!saves() || !clock_.Due(step, options_.now())) return absl::OkStatus();
  return SaveNow(step);
}

absl::Status StateSaver::SaveNow(int step) {
  if (!saves() || step == saved_step_) return absl::OkStatus();
  const absl::Status saved = Save(step);
  clock_.OnSave(options_.now());
  if (!saved.ok()) return Failed(saved, step);
  saved_step_ = step;
  return absl::OkStatus();
}

absl::StatusOr<std::string> StateSaver::OnLossNotFinite(int step) {
  const bool led_to_it = saved_step_ == step - 1 && saved_step_ > steps_before_;
  if (options_.directory == nullptr || !led_to_it) return std::string();
  const int withdrawn = saved_step_;
  SLUICE_ASSIGN_OR_RETURN(saved_step_, options_.directory->Withdraw(withdrawn));
  return fmt::format(
      "--state: the save after step {} is removed, as its loss is no finite number; {}",
      withdrawn,
      saved_step_ > 0 ? fmt::format("that of step {} stands", saved_step_)
                      : "there is none before it");
}

absl::Status StateSaver::Save(int step) {
  if (options_.directory == nullptr) return options_.save(options_.in_place);
  return SaveIn(*options_.directory, step);
}

absl::Status StateSaver::SaveIn(StateDirectory& directory, int step) {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, directory.BeginSave(step));
  if (absl::Status saved = options_.save(path); !saved.ok()) {
    directory.GiveUpSave(step);
    return saved;
  }
  return directory.EndSave(step);
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
                               saved_step_ > 0 ? fmt::format("that of step {} stands", saved_step_)
                                               : "there is no older one of this run")));
}

}  // namespace sluice::tools
