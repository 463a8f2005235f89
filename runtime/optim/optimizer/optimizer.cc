#include "sluice/optimizer.h"

#include <utility>

#include "base/status.h"
#include "runtime/optim/optimizer/optimizer_impl.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<OffloadedOptimizer>> OffloadedOptimizer::Create(
    Runtime& runtime, const OptimizerOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(auto impl, Impl::Create(runtime, options));
  return std::unique_ptr<OffloadedOptimizer>(new OffloadedOptimizer(std::move(impl)));
}

OffloadedOptimizer::OffloadedOptimizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OffloadedOptimizer::~OffloadedOptimizer() {
  if (!impl_->CheckProcess().ok()) static_cast<void>(impl_.release());
}

absl::StatusOr<TensorId> OffloadedOptimizer::BindParameter(const ParameterBinding& parameter) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->parameters().Bind(parameter);
}
absl::Status OffloadedOptimizer::UnbindParameter(TensorId parameter) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->parameters().Unbind(parameter);
}
absl::Status OffloadedOptimizer::MoveParameters(std::span<const MovedParameter> moved) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(optim::ParameterTable * parameters, impl_->IdleParameters());
  return parameters->Move(moved);
}
absl::StatusOr<GroupId> OffloadedOptimizer::AddGroup(const GroupOptions& options) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->AddGroup(options);
}
absl::Status OffloadedOptimizer::SetRates(GroupId group, const GroupRates& rates) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->SetRates(group, rates);
}
absl::StatusOr<GroupRates> OffloadedOptimizer::Rates(GroupId group) const {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->Rates(group);
}
absl::Status OffloadedOptimizer::BindGradient(TensorId parameter, const GradientBinding& gradient) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(auto* entry, impl_->FindIdleEntry(parameter));
  return impl_->parameters().BindGradient(*entry, gradient);
}
absl::Status OffloadedOptimizer::UnbindGradients() {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(optim::ParameterTable * parameters, impl_->IdleParameters());
  parameters->UnbindGradients();
  return absl::OkStatus();
}
absl::Status OffloadedOptimizer::BindCopy(TensorId parameter, const CopyBinding& copy) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(auto* entry, impl_->FindIdleEntry(parameter));
  return impl_->parameters().BindCopy(*entry, copy);
}
absl::Status OffloadedOptimizer::RefreshCopies(GroupId group) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->RefreshCopies(group);
}
absl::Status OffloadedOptimizer::AddGradient(GroupId group) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->AddGradient(group);
}
absl::Status OffloadedOptimizer::ResetGradient(GroupId group) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->ResetGradient(group);
}
absl::Status OffloadedOptimizer::GradientReady(GroupId group) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->GradientReady(group);
}
absl::StatusOr<Bytes> OffloadedOptimizer::Prefetch(std::span<const GroupId> groups, Bytes at_most) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->Prefetch(groups, at_most);
}
absl::StatusOr<StepHandle> OffloadedOptimizer::Step(const StepOptions& options) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->Step(options);
}
absl::Status OffloadedOptimizer::WaitFor(GroupId group, Ticket::Deadline deadline) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->WaitFor(group, deadline);
}
std::int64_t OffloadedOptimizer::step() const {
  return impl_->CheckProcess().ok() ? impl_->step() : 0;
}
bool OffloadedOptimizer::backwards() const {
  return impl_->CheckProcess().ok() && impl_->backwards();
}
absl::StatusOr<ParameterState> OffloadedOptimizer::State(TensorId parameter) const {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->State(parameter);
}
absl::Status OffloadedOptimizer::ReadState(TensorId parameter,
                                           std::size_t state,
                                           std::span<float> values) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto* entry, impl_->FindValues(parameter, values.size()));
  return impl_->values().ReadState(*entry, state, values);
}
absl::Status OffloadedOptimizer::WriteState(TensorId parameter,
                                            std::size_t state,
                                            std::span<const float> values) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto* entry, impl_->FindToWrite(parameter, values.size()));
  return impl_->values().WriteState(*entry, state, values);
}
absl::Status OffloadedOptimizer::ReadMaster(TensorId parameter, std::span<float> values) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto* entry, impl_->FindValues(parameter, values.size()));
  return impl_->values().ReadMaster(*entry, values);
}
absl::Status OffloadedOptimizer::WriteMaster(TensorId parameter, std::span<const float> values) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto* entry, impl_->FindToWrite(parameter, values.size()));
  return impl_->values().WriteMaster(*entry, values);
}
absl::Status OffloadedOptimizer::RefreshMaster(TensorId parameter) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto* entry, impl_->FindToWrite(parameter, std::nullopt));
  return impl_->values().TakeMaster(*entry);
}
absl::Status OffloadedOptimizer::SetStepsOf(TensorId parameter, std::int64_t steps) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->SetStepsOf(parameter, steps);
}
absl::Status OffloadedOptimizer::Save(const std::string& directory, std::string_view note) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(SaveHandle save, impl_->StartSave(directory, note));
  return save.Wait();
}
absl::StatusOr<SaveHandle> OffloadedOptimizer::StartSave(const std::string& directory,
                                                         std::string_view note) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->StartSave(directory, note);
}
absl::Status OffloadedOptimizer::Load(const std::string& directory) {
  SLUICE_RETURN_IF_ERROR(impl_->CheckProcess());
  return impl_->Load(directory);
}

}  // namespace sluice
