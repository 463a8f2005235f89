#include "tools/train/run/train_session.h"

#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "tools/train/files/initial_weights.h"
#include "tools/train/files/record_file.h"
#include "tools/train/state/save_room.h"

namespace sluice::tools {
namespace {

/// Opens the file of a flag, unless its path is empty.
template <typename File>
absl::Status OpenOutput(const char* flag, const std::string& path, std::unique_ptr<File>* file) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<File>> opened = File::Create(path);
  if (!opened.ok()) return base::Annotate(opened.status(), flag);
  *file = *std::move(opened);
  return absl::OkStatus();
}

/// Whether all of these fp32 numbers are finite: an exponent of ones stands for none.
bool AllFinite(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  bool finite = true;
  for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(bits));
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainSession>> TrainSession::Create(const TrainFlags& flags,
                                                                   const gpt::Dataset& data,
                                                                   Console& console,
                                                                   RunSaves state,
                                                                   SessionHooks hooks) {
  std::unique_ptr<TrainSession> session(
      new TrainSession(flags, std::move(state), console, std::move(hooks)));
  SLUICE_ASSIGN_OR_RETURN(session->memory_, MemorySampler::Create());
  SLUICE_RETURN_IF_ERROR(session->OpenOutputs());
  SLUICE_RETURN_IF_ERROR(session->BeginPhase("measuring the links"));
  SLUICE_ASSIGN_OR_RETURN(session->rates_, MeasureLinkRates(flags.settings.runtime));
  SLUICE_RETURN_IF_ERROR(session->MakeRuntime());
  SLUICE_RETURN_IF_ERROR(session->MakeTrainer(data));
  SLUICE_RETURN_IF_ERROR(
      CheckRoomForSaves(flags, session->state_.resumable, session->trainer_->ParameterSpecs()));
  SLUICE_RETURN_IF_ERROR(session->BeginPhase("measuring the matrix products"));
  session->MeasureProducts();
  SLUICE_RETURN_IF_ERROR(session->Resume());
  SLUICE_RETURN_IF_ERROR(session->BeginFromWeights());
  session->MakeSaver();
  session->stop_ = {};
  return session;
}

absl::Status TrainSession::BeginPhase(const std::string& what) {
  if (stop_ && stop_()) return absl::CancelledError("stopped before " + what);
  console_.ShowProgress(what);
  return absl::OkStatus();
}

absl::Status TrainSession::OpenOutputs() {
  SLUICE_RETURN_IF_ERROR(OpenOutput<TraceFile>("--trace", flags_.trace_path, &trace_));
  SLUICE_RETURN_IF_ERROR(OpenOutput<SafetensorsFile>("--save", flags_.save_path, &model_));
  SLUICE_RETURN_IF_ERROR(OpenOutput<AtomicFile>("--record", flags_.record_path, &record_));
  return absl::OkStatus();
}

absl::Status TrainSession::MakeRuntime() {
  SLUICE_RETURN_IF_ERROR(BeginPhase("making the tiers"));
  RuntimeOptions options = flags_.settings.runtime;
  options.log = [this](LogLevel level, std::string_view line) { console_.Log(level, line); };
  options.stop = stop_;
  if (trace_ != nullptr) options.trace = [this](const TraceSpan& span) { trace_->Add(span); };
  SLUICE_ASSIGN_OR_RETURN(runtime_, make_runtime_(std::move(options)));
  monitor_ = std::make_unique<RunMonitor>(*runtime_, trace_.get(), *memory_);
  return absl::OkStatus();
}

absl::Status TrainSession::MakeTrainer(const gpt::Dataset& data) {
  SLUICE_RETURN_IF_ERROR(BeginPhase("creating the model"));
  paged_ = std::make_unique<gpt::PagedMemory>(*runtime_);
  paged_->SetObserver([this](const gpt::OpTiming& timing) { monitor_->OnOp(timing); });
  SLUICE_ASSIGN_OR_RETURN(
      trainer_,
      gpt::Trainer::Create(flags_.settings.model, flags_.settings.train, data, *paged_, stop_));
  trainer_->SetStop({});
  return absl::OkStatus();
}

void TrainSession::MeasureProducts() {
  compute_ = gpt::MeasureCompute(trainer_->compute_threads());
  const std::optional<FallbackEvent> fallback = gpt::FallbackOf(compute_);
  if (!fallback.has_value()) return;
  console_.Log(
      LogLevel::kWarning,
      fmt::format("fallback: {}: {} ({})", fallback->what, fallback->chosen, fallback->reason));
}

std::vector<absl::Status> TrainSession::WriteOutputs(Saves saves) {
  std::vector<absl::Status> failures;
  const auto note = [&](const char* flag, const std::string& path, const absl::Status& status) {
    if (!status.ok()) failures.push_back(base::Annotate(status, fmt::format("{} {}", flag, path)));
  };
  if (record_ != nullptr) note("--record", flags_.record_path, WriteRecord());
  const bool written = saves == Saves::kWritten;
  if (model_ != nullptr && written) note("--save", flags_.save_path, WriteModel());
  if (written) {
    if (const absl::Status saved = SaveState(); !saved.ok()) failures.push_back(saved);
  }
  if (trace_ != nullptr) note("--trace", flags_.trace_path, trace_->Finish());
  return failures;
}

absl::Status TrainSession::SaveState() {
  // The trainer may have failed before, while another output was written.
  if (!trainer_->failure().ok()) SLUICE_RETURN_IF_ERROR(trainer_->Recover());
  return saver_->SaveNow(trainer_->step());
}

void TrainSession::EndBegunSaves() {
  const absl::Status ended = saver_->FinishBegun();
  if (!ended.ok()) console_.Log(LogLevel::kWarning, base::ToStd(ended.message()));
}

void TrainSession::WithdrawLastSave() {
  const absl::StatusOr<std::string> done = saver_->OnParametersNotFinite(trainer_->step());
  const std::string said = done.ok() ? *done : std::string(base::ToStd(done.status().message()));
  if (!said.empty()) console_.Log(LogLevel::kWarning, said);
}

absl::Status TrainSession::Resume() {
  ResumableSaves& resumable = state_.resumable;
  if (resumable.candidates.empty()) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(BeginPhase("reading the state"));
  const auto load = [this](const std::string& from) { return trainer_->LoadState(from); };
  SLUICE_ASSIGN_OR_RETURN(const ResumableSaves::Candidate loaded, LoadNewest(load, &resumable));
  PrintPassedOver(resumable, console_);
  steps_before_ = trainer_->step();
  resumed_from_ = loaded.save.directory;
  if (state_.directory != nullptr) state_.directory->OnResumed(steps_before_);
  const std::string& differences = loaded.run.differences;
  if (!differences.empty()) {
    console_.Log(LogLevel::kWarning, fmt::format("{}: {}", resumable.flag, differences));
  }
  const int steps = flags_.settings.train.steps;
  console_.Print(steps_before_ <= steps
                     ? fmt::format("resumed after step {} of {}\n", steps_before_, steps)
                     : fmt::format("resumed after step {}, beyond the {} of this run\n",
                                   steps_before_,
                                   steps));
  return absl::OkStatus();
}

absl::Status TrainSession::BeginFromWeights() {
  // A state that was read has later weights.
  if (flags_.init_path.empty() || !state_.resumable.candidates.empty()) return absl::OkStatus();
  console_.ShowProgress("reading the weights");
  absl::StatusOr<InitialWeights> weights =
      InitialWeights::Open(flags_.init_path, flags_.settings.model);
  if (!weights.ok()) return base::Annotate(weights.status(), "--init");
  SLUICE_RETURN_IF_ERROR(base::Annotate(weights->Fill(*trainer_), "--init"));
  console_.Print(fmt::format("began from the weights in {}\n", flags_.init_path));
  return absl::OkStatus();
}

void TrainSession::MakeSaver() {
  gpt::Trainer& trainer = *trainer_;
  std::error_code none;
  const bool in_place = state_.directory != nullptr ||
                        std::filesystem::equivalent(resumed_from_, flags_.save_state_path, none);
  const std::string& note = state_.note;
  saver_ = std::make_unique<StateSaver>(
      StateSaverOptions{.every = flags_.settings.save_every,
                        .directory = state_.directory.get(),
                        .in_place = flags_.save_state_path,
                        .resumed_from = in_place ? std::string() : resumed_from_,
                        .save = [&](const std::string& to) { return trainer.SaveState(to, note); },
                        .start = [&](const std::string& to) { return trainer.StartSave(to, note); },
                        // TakeFinishedSaves tells how it went.
                        .finish = [&] { trainer.FinishSave().IgnoreError(); },
                        .give_up = [&](int step) { trainer.GiveUpSave(step); },
                        .take = [&] { return trainer.TakeFinishedSaves(); }},
      steps_before_);
}

absl::StatusOr<bool> TrainSession::HasFiniteParameters() {
  bool finite = true;
  SLUICE_RETURN_IF_ERROR(trainer_->ForEachParameter(
      [&finite](const std::string&, std::uint64_t, std::span<const std::byte> bytes) {
        finite = finite && AllFinite(bytes);
        return absl::OkStatus();
      }));
  return finite;
}

absl::Status TrainSession::WriteRecord() {
  bool any = false;
  for (const std::string& key : trainer_->step_keys()) {
    SLUICE_RETURN_IF_ERROR(RecordKey(key, &any));
  }
  SLUICE_RETURN_IF_ERROR(RecordKey(gpt::kValidateKey, &any));
  if (!any && trainer_->step() > steps_before_) {
    return absl::FailedPreconditionError(
        "no iteration was short enough to be recorded; raise scheduler.recorded_accesses_max");
  }
  return record_->Commit();
}

absl::Status TrainSession::RecordKey(std::string_view key, bool* any) {
  const absl::StatusOr<Schedule> schedule = runtime_->RecordedSchedule(key);
  // A run need not have steps of every key.
  if (absl::IsNotFound(schedule.status())) return absl::OkStatus();
  if (!schedule.ok()) return schedule.status();
  *any = true;
  return AppendSchedule("train-gpt", *schedule, record_.get());
}

absl::Status TrainSession::WriteModel() {
  const gpt::ModelConfig& model = flags_.settings.model;
  SLUICE_RETURN_IF_ERROR(model_->Begin(trainer_->ParameterSpecs(),
                                       {{"layers", std::to_string(model.layers)},
                                        {"heads", std::to_string(model.heads)},
                                        {"width", std::to_string(model.width)},
                                        {"context", std::to_string(model.context)},
                                        {"steps", std::to_string(trainer_->step())}}));
  SLUICE_RETURN_IF_ERROR(trainer_->ForEachParameter(
      [this](const std::string& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
        return model_->Append(tensor, offset, bytes);
      }));
  return model_->Commit();
}

}  // namespace sluice::tools
