#include "workloads/gpt/training/trainer.h"

#include <utility>

#include "workloads/gpt/model/status.h"
#include "workloads/gpt/training/trainer_impl.h"

namespace sluice::gpt {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const ModelConfig& model,
                                                         const TrainConfig& train,
                                                         const Dataset& data,
                                                         Memory& memory,
                                                         StopFn stop) {
  GPT_RETURN_IF_ERROR(Check(model, train));
  GPT_ASSIGN_OR_RETURN(std::unique_ptr<ComputeThreads> threads,
                       ComputeThreads::Create(train.compute_threads));
  auto impl = std::make_unique<Impl>(model, train, std::move(threads), data, memory);
  impl->SetStop(std::move(stop));
  GPT_RETURN_IF_ERROR(impl->SetUp());
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

void Trainer::SetStop(StopFn stop) { impl_->SetStop(std::move(stop)); }

absl::Status Trainer::SetRecompute(RecomputeChoice choice) {
  return impl_->SetRecompute(std::move(choice));
}

ComputeThreads& Trainer::compute_threads() const { return impl_->threads(); }

const RecomputeChoice& Trainer::recompute() const { return impl_->recompute(); }

absl::StatusOr<StepResult> Trainer::Step(UpdateTime update) { return impl_->Step(update); }
absl::StatusOr<float> Trainer::Validate() { return impl_->Validate(); }

const absl::Status& Trainer::failure() const { return impl_->failure(); }
absl::Status Trainer::Recover() { return impl_->Recover(); }

absl::Status Trainer::ForEachState(const StateVisitor& visit) {
  GPT_RETURN_IF_ERROR(impl_->VisitParameters(visit));
  return impl_->VisitMoments(visit);
}

absl::Status Trainer::SaveState(const std::string& directory, std::string_view note) {
  return impl_->SaveState(directory, note);
}

absl::Status Trainer::LoadState(const std::string& directory) {
  return impl_->LoadState(directory);
}

absl::Status Trainer::FillParameters(const ParameterFill& fill) {
  return impl_->FillParameters(fill);
}

absl::Status Trainer::StartSave(const std::string& directory, std::string_view note) {
  return impl_->StartSave(directory, note);
}

absl::Status Trainer::FinishSave() { return impl_->FinishSave(); }

void Trainer::GiveUpSave(int step) {
  if (impl_->saves() != nullptr) impl_->saves()->GiveUp(step);
}

std::vector<FinishedSave> Trainer::TakeFinishedSaves() {
  TrainerSaves* const saves = impl_->saves();
  return saves == nullptr ? std::vector<FinishedSave>() : saves->TakeFinished();
}

absl::Status Trainer::ForEachParameter(const StateVisitor& visit) {
  return impl_->VisitParameters(visit);
}

std::vector<TensorSpec> Trainer::ParameterSpecs() const {
  std::vector<TensorSpec> specs;
  for (const Parameter& parameter : impl_->parameters().all) {
    specs.push_back(SpecOf(parameter, "", TensorKind::kParameter));
  }
  return specs;
}

double Trainer::FlopsPerStep() const { return impl_->gemms().Flops(); }
int Trainer::step() const { return impl_->step(); }
const std::set<std::string>& Trainer::step_keys() const { return impl_->step_keys(); }

}  // namespace sluice::gpt
