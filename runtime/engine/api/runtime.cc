#include "sluice/runtime.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/weights/open_weights.h"

namespace sluice {

Reservation::Reservation() = default;
Reservation::Reservation(std::shared_ptr<internal::ReservationState> state)
    : state_(std::move(state)) {}
Reservation::Reservation(Reservation&&) noexcept = default;
Reservation& Reservation::operator=(Reservation&&) noexcept = default;
Reservation::~Reservation() = default;

const std::vector<std::span<std::byte>>& Reservation::Spans() const {
  SLUICE_CHECK(state_ != nullptr, "Reservation::Spans needs a reservation that holds frames");
  return state_->spans();
}

Runtime::Runtime(std::shared_ptr<internal::RuntimeState> state) : state_(std::move(state)) {}
// A child of the process shuts nothing down: see Note [Fork].
Runtime::~Runtime() {
  if (state_->CheckProcess().ok()) state_->Shutdown();
}

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(RuntimeOptions options) {
  return internal::RuntimeAccess::Create(std::move(options), {});
}

absl::StatusOr<std::vector<TensorId>> Runtime::CreateTensors(std::span<const TensorSpec> specs) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->CreateTensors(specs);
}

absl::StatusOr<TensorId> Runtime::CreateTensor(const TensorSpec& spec) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TensorId> ids, CreateTensors({&spec, 1}));
  return ids.front();
}

absl::StatusOr<TensorId> Runtime::Adopt(const TensorSpec& spec,
                                        std::span<const std::byte> bytes,
                                        std::function<void()> deleter) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const TensorId tensor, state_->Adopt(spec, bytes));
  if (deleter) deleter();
  return tensor;
}

absl::StatusOr<std::vector<Weight>> Runtime::OpenWeights(const std::string& path,
                                                         const WeightOptions& options) {
  return engine::OpenWeights(*this, path, options);
}

absl::Status Runtime::Write(TensorId tensor,
                            std::span<const std::byte> bytes,
                            std::uint64_t offset) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->Write(tensor, bytes, offset);
}
absl::Status Runtime::Read(TensorId tensor, std::span<std::byte> bytes, std::uint64_t offset) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->Read(tensor, bytes, offset);
}
absl::Status Runtime::Free(TensorId tensor) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->Free(tensor);
}
absl::Status Runtime::Discard(TensorId tensor, ByteRange range) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->Discard(tensor, range);
}
absl::StatusOr<Bytes> Runtime::SizeOfTensor(TensorId tensor) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto found, state_->FindTensor(tensor));
  return Bytes(found->bytes);
}
absl::StatusOr<std::string> Runtime::NameOfTensor(TensorId tensor) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto found, state_->FindTensor(tensor));
  return found->spec.name;
}
absl::StatusOr<DType> Runtime::TypeOfTensor(TensorId tensor) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto found, state_->FindTensor(tensor));
  return found->spec.dtype;
}
absl::StatusOr<std::span<const std::byte>> Runtime::AddressOf(TensorId tensor) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->AddressOf(tensor);
}
absl::StatusOr<std::vector<std::int64_t>> Runtime::ShapeOfTensor(TensorId tensor) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(const auto found, state_->FindTensor(tensor));
  return found->spec.shape;
}
absl::Status Runtime::CheckAccess(const Access& access) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  Access any = access;
  any.contiguous = false;  // no addresses are reserved for a question
  return state_->DraftAccesses({&any, 1}, nullptr).status();
}
Bytes Runtime::PageBytes() const { return state_->PageBytes(); }

const TraceSink& Runtime::Trace() const { return state_->trace(); }
std::vector<std::vector<int>> Runtime::DramNodes() const { return state_->DramNodes(); }

absl::Status Runtime::BeginIteration(std::string_view key) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->BeginIteration(key);
}
absl::Status Runtime::EndIteration() {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->EndIteration();
}
Op Runtime::BeginOp(OpOptions options) {
  if (state_->CheckProcess().ok()) return Op(state_->BeginOp(std::move(options)));
  return Op(std::make_shared<internal::OpState>(
      state_, internal::OpState::Identity(), engine::OpRecord()));  // an op whose requests fail
}
absl::Status Runtime::Prefetch(std::span<const Access> accesses, std::uint32_t ops_ahead) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->Prefetch(accesses, ops_ahead);
}

absl::StatusOr<Reservation> Runtime::Reserve(TierId tier, Bytes bytes) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(auto reservation, state_->Reserve(tier, bytes));
  return Reservation(std::move(reservation));
}
absl::Status Runtime::SetBudget(TierId tier, Bytes bytes) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->SetBudget(tier, bytes);
}
absl::Status Runtime::SetEmulatedRates(double in_bytes_per_second, double out_bytes_per_second) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->SetEmulatedRates(in_bytes_per_second, out_bytes_per_second);
}

absl::StatusOr<StreamRef> Runtime::CreateStream() {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(auto stream, state_->MakeStream(std::nullopt));
  return StreamRef(std::move(stream));
}
absl::StatusOr<StreamRef> Runtime::AdoptStream(void* cuda_stream) {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  SLUICE_ASSIGN_OR_RETURN(auto stream, state_->MakeStream(cuda_stream));
  return StreamRef(std::move(stream));
}
HealthReport Runtime::Health() const {
  const absl::Status child = state_->CheckProcess();
  if (child.ok()) return state_->Health();
  return {HealthState::kDead, {std::string(base::ToStd(child.message()))}};
}
Stats Runtime::GetStats() const {
  return state_->CheckProcess().ok() ? state_->GetStats() : Stats();
}
absl::StatusOr<Schedule> Runtime::RecordedSchedule(std::string_view key) const {
  SLUICE_RETURN_IF_ERROR(state_->CheckProcess());
  return state_->RecordedSchedule(key);
}

namespace internal {

absl::StatusOr<std::unique_ptr<Runtime>> RuntimeAccess::Create(RuntimeOptions options,
                                                               const engine::BackendHooks& hooks) {
  SLUICE_ASSIGN_OR_RETURN(auto state, RuntimeState::Create(std::move(options), hooks));
  return std::unique_ptr<Runtime>(new Runtime(std::move(state)));
}

RuntimeState& RuntimeAccess::StateOf(Runtime& runtime) { return *runtime.state_; }

}  // namespace internal
}  // namespace sluice
