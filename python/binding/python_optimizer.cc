#include "python/binding/python_optimizer.h"

#include <chrono>
#include <span>
#include <utility>

#include "python/binding/named.h"
#include "python/binding/stats.h"
#include "python/binding/status.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

using RateTuple = std::tuple<double, double, double, double, double>;

/// The time after which a thread that waits for a step looks for signals.
constexpr std::chrono::milliseconds kStepSignalInterval{50};

GroupRates RatesOf(const RateTuple& rates) {
  const auto& [learning_rate, beta1, beta2, eps, weight_decay] = rates;
  return {.learning_rate = learning_rate,
          .beta1 = beta1,
          .beta2 = beta2,
          .eps = eps,
          .weight_decay = weight_decay};
}

std::span<std::byte> MemoryAt(std::uintptr_t address, std::uint64_t bytes) {
  return {reinterpret_cast<std::byte*>(address), bytes};
}

std::span<float> FloatsAt(std::uintptr_t address, std::uint64_t count) {
  return {reinterpret_cast<float*>(address), count};
}

DType TypeOf(const Update& update) { return Named(std::get<2>(update), DType::kI64, "dtype"); }

/// Rates and gradient of a parameter's next update.
absl::Status Bind(OffloadedOptimizer& optimizer, const Update& update, DType type) {
  const auto& [group, parameter, name, address, bytes, rates] = update;
  const absl::Status status = optimizer.SetRates({group}, RatesOf(rates));
  if (!status.ok()) return status;
  return optimizer.BindGradient({parameter}, {.type = type, .bytes = MemoryAt(address, bytes)});
}

}  // namespace

template <typename Call>
auto PythonOptimizer::Alone(const Call& call) const {
  StopIfLeaving();
  session_->RefuseChild();
  using Result = decltype(call(*optimizer_));
  std::optional<Result> result;
  WithoutGil([&] {
    const std::lock_guard lock(mutex_);
    if (optimizer_ != nullptr) result.emplace(call(*optimizer_));
  });
  if (!result) Raise(absl::FailedPreconditionError("the optimizer, or its runtime, is closed"));
  return *std::move(result);
}

std::shared_ptr<PythonOptimizer> PythonOptimizer::Create(const std::shared_ptr<Session>& session,
                                                         const std::string& kind,
                                                         const std::string& state,
                                                         const std::string& lowest,
                                                         double clip_norm,
                                                         bool norm_given,
                                                         std::uint64_t seed,
                                                         int threads,
                                                         bool overlap) {
  const std::shared_ptr<Runtime> runtime = session->runtime();
  const std::shared_ptr<const int> number = session->TakeOptimizerNumber();
  const OptimizerOptions options{.kind = Named(kind, OptimizerKind::kAdagrad, "kind"),
                                 .state = Named(state, StateType::k8Bit, "states"),
                                 .lowest = Named(lowest, TierKind::kNvme, "lowest"),
                                 .clip_norm = clip_norm,
                                 .norm_given = norm_given,
                                 .seed = seed,
                                 .order = overlap ? SweepOrder::kForward : SweepOrder::kAlternate,
                                 .threads = threads,
                                 .lane = "optimizer." + std::to_string(*number)};
  auto optimizer =
      ValueOrRaise(WithoutGil([&] { return OffloadedOptimizer::Create(*runtime, options); }));
  const std::shared_ptr<PythonOptimizer> made(
      new PythonOptimizer(session, number, std::move(optimizer), overlap));
  session->Add(made);
  return made;
}

PythonOptimizer::PythonOptimizer(std::shared_ptr<Session> session,
                                 std::shared_ptr<const int> number,
                                 std::unique_ptr<OffloadedOptimizer> optimizer,
                                 bool overlap)
    : session_(std::move(session)),
      number_(std::move(number)),
      overlap_(overlap),
      optimizer_(std::move(optimizer)) {}

PythonOptimizer::~PythonOptimizer() { Close(); }

void PythonOptimizer::Close() {
  // A thread of the parent may have held the lock.
  if (session_->in_child()) return;
  const auto close = [this] {
    const std::lock_guard lock(mutex_);
    // No later call may wait for the step, so Close does.
    if (overlap_ && optimizer_ != nullptr) whole_at_close_ = step_.Wait().ok();
    optimizer_.reset();
  };
  if (PyGILState_Check() == 0) return close();
  WithoutGil(close);
}

std::pair<std::uint32_t, std::uint64_t> PythonOptimizer::Add(const std::string& name,
                                                             const std::string& dtype,
                                                             const std::vector<std::int64_t>& shape,
                                                             std::uintptr_t address,
                                                             std::uint64_t bytes,
                                                             bool master,
                                                             std::uint64_t number) {
  const ParameterBinding binding{.name = name,
                                 .type = Named(dtype, DType::kI64, "dtype"),
                                 .shape = shape,
                                 .bytes = MemoryAt(address, bytes),
                                 .master = master};
  using Ids = std::pair<std::uint32_t, std::uint64_t>;
  return ValueOrRaise(Alone([&](OffloadedOptimizer& optimizer) -> absl::StatusOr<Ids> {
    // Gradients of the last step may be gone, and the parameter in their place.
    optimizer.UnbindGradients().IgnoreError();
    const absl::StatusOr<TensorId> parameter = optimizer.BindParameter(binding);
    if (!parameter.ok()) return parameter.status();
    const absl::StatusOr<GroupId> group =
        optimizer.AddGroup({.name = name, .parameters = {*parameter}, .first_number = number});
    if (group.ok()) return Ids{group->value, parameter->value};
    optimizer.UnbindParameter(*parameter).IgnoreError();
    return group.status();
  }));
}

void PythonOptimizer::Move(const std::vector<MovedPlace>& moved) {
  std::vector<MovedParameter> parameters;
  for (const auto& [parameter, address, bytes] : moved)
    parameters.push_back({.parameter = {parameter}, .bytes = MemoryAt(address, bytes)});
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    optimizer.UnbindGradients().IgnoreError();
    return optimizer.MoveParameters(parameters);
  }));
}

std::uint64_t PythonOptimizer::Prefetch(const std::vector<std::uint32_t>& groups,
                                        std::uint64_t bytes) {
  std::vector<GroupId> ids;
  ids.reserve(groups.size());
  for (const std::uint32_t group : groups) ids.push_back({group});
  const Bytes hinted = ValueOrRaise(
      Alone([&](OffloadedOptimizer& optimizer) { return optimizer.Prefetch(ids, Bytes(bytes)); }));
  return hinted.count();
}

void PythonOptimizer::Start(const std::vector<Update>& updates, std::optional<double> norm) {
  std::vector<DType> types;
  types.reserve(updates.size());
  for (const Update& update : updates) types.push_back(TypeOf(update));
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    norm_ = norm;
    // Every gradient is bound before the first update begins.
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const absl::Status bound = Bind(optimizer, updates[i], types[i]);
      if (!bound.ok()) return bound;
    }
    // The last step has left the pages in dram that this order uses first.
    const bool backwards = optimizer.backwards();
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const Update& update = updates[backwards ? updates.size() - 1 - i : i];
      const absl::Status status = optimizer.GradientReady({std::get<0>(update)});
      if (!status.ok()) return status;
    }
    absl::StatusOr<StepHandle> step = optimizer.Step({.gradient_norm = norm_, .only_ready = true});
    if (!step.ok()) return step.status();
    step_ = *std::move(step);
    ++started_;
    return absl::OkStatus();
  }));
}

void PythonOptimizer::Begin(const Update& update) {
  const DType type = TypeOf(update);
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    const absl::Status bound = Bind(optimizer, update, type);
    if (!bound.ok()) return bound;
    const absl::Status ready = optimizer.GradientReady({std::get<0>(update)});
    if (ready.ok()) ++begun_;
    return ready;
  }));
}

void PythonOptimizer::GoOn() {
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    absl::StatusOr<StepHandle> step = optimizer.Step({.gradient_norm = norm_, .only_ready = true});
    if (!step.ok()) return step.status();
    step_ = *std::move(step);
    ++started_;
    return absl::OkStatus();
  }));
}

nb::dict PythonOptimizer::Wait() {
  StepHandle step = Alone([&](OffloadedOptimizer&) { return step_; });
  while (true) {
    const auto deadline = std::chrono::steady_clock::now() + kStepSignalInterval;
    const absl::StatusOr<OptimizerStep> done = WithoutGil([&] { return step.Wait(deadline); });
    if (done.ok()) return python::DictOf(*done);
    if (!absl::IsDeadlineExceeded(done.status())) Raise(done.status());
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

bool PythonOptimizer::WaitFor(std::uint32_t group, bool block) {
  if (whole_at_close_) return true;
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    const absl::Status done = Alone([&](OffloadedOptimizer& optimizer) {
      return optimizer.WaitFor({group}, block ? now + kStepSignalInterval : now);
    });
    if (!absl::IsDeadlineExceeded(done)) return done.ok();
    if (!block) return false;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void PythonOptimizer::SetRates(std::uint32_t group, const RateTuple& to) {
  RaiseIfError(Alone(
      [&](OffloadedOptimizer& optimizer) { return optimizer.SetRates({group}, RatesOf(to)); }));
}

RateTuple PythonOptimizer::Rates(std::uint32_t group) const {
  const GroupRates rates =
      ValueOrRaise(Alone([&](OffloadedOptimizer& optimizer) { return optimizer.Rates({group}); }));
  return {rates.learning_rate, rates.beta1, rates.beta2, rates.eps, rates.weight_decay};
}

void PythonOptimizer::ReadState(std::uint64_t parameter,
                                std::optional<int> state,
                                std::uintptr_t to,
                                std::uint64_t count) {
  const std::span<float> values = FloatsAt(to, count);
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    return state ? optimizer.ReadState({parameter}, static_cast<std::size_t>(*state), values)
                 : optimizer.ReadMaster({parameter}, values);
  }));
}

void PythonOptimizer::WriteState(std::uint64_t parameter,
                                 std::optional<int> state,
                                 std::uintptr_t from,
                                 std::uint64_t count) {
  const std::span<const float> values = FloatsAt(from, count);
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) {
    return state ? optimizer.WriteState({parameter}, static_cast<std::size_t>(*state), values)
                 : optimizer.WriteMaster({parameter}, values);
  }));
}

void PythonOptimizer::RefreshMaster(std::uint64_t parameter) {
  RaiseIfError(
      Alone([&](OffloadedOptimizer& optimizer) { return optimizer.RefreshMaster({parameter}); }));
}

std::int64_t PythonOptimizer::StepsOf(std::uint64_t parameter) const {
  return ValueOrRaise(
             Alone([&](OffloadedOptimizer& optimizer) { return optimizer.State({parameter}); }))
      .step;
}

void PythonOptimizer::SetStepsOf(std::uint64_t parameter, std::int64_t steps) {
  RaiseIfError(Alone(
      [&](OffloadedOptimizer& optimizer) { return optimizer.SetStepsOf({parameter}, steps); }));
}

void PythonOptimizer::Save(const std::string& directory, const std::string& note) {
  RaiseIfError(
      Alone([&](OffloadedOptimizer& optimizer) { return optimizer.Save(directory, note); }));
}

std::string PythonOptimizer::ReadNote(const std::string& directory) {
  return ValueOrRaise(WithoutGil([&] { return OffloadedOptimizer::ReadSave(directory); })).note;
}

void PythonOptimizer::Load(const std::string& directory) {
  RaiseIfError(Alone([&](OffloadedOptimizer& optimizer) { return optimizer.Load(directory); }));
}

}  // namespace sluice::python
