#include "python/binding/tensor_state.h"

#include <utility>

#include "python/binding/status.h"
#include "python/binding/waiting.h"

namespace sluice::python {

std::shared_ptr<TensorState> TensorState::Create(const std::shared_ptr<Session>& session,
                                                 const TensorSpec& spec) {
  const std::shared_ptr<Runtime> runtime = session->runtime();
  const TensorId id = ValueOrRaise(WithoutGil([&] { return runtime->CreateTensor(spec); }));
  auto state = std::make_shared<TensorState>(session, id, spec);
  session->Add(state);
  return state;
}

TensorState::TensorState(std::shared_ptr<Session> session, TensorId id, const TensorSpec& spec)
    : session_(std::move(session)),
      id_(id),
      name_(spec.name),
      bytes_(SizeOf(spec).count()),
      lowest_(spec.lowest),
      readable_(spec.off_lease == OffLease::kReadable) {}

TensorState::~TensorState() {
  if (!freed_) session_->Free(id_);
}

void TensorState::Free() {
  RefuseFreed();
  if (arrays > 0 || storages > 0) {
    Raise(absl::FailedPreconditionError("tensor '" + name_ + "' is in use: " + Users(0)));
  }
  const std::shared_ptr<Runtime> runtime = session_->runtime();
  RaiseIfError(WithoutGil([&] { return runtime->Free(id_); }));
  freed_ = true;
}

std::string TensorState::Users(int leases) const {
  std::string users;
  const auto add = [&users](int count, const std::string& what) {
    if (count == 0) return;
    if (!users.empty()) users += ", ";
    users += std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  add(leases, "lease");
  add(arrays, "NumPy array");
  add(storages, "torch storage");
  return users;
}

void TensorState::RefuseFreed() const {
  if (freed_) Raise(absl::NotFoundError("tensor '" + name_ + "' has been freed"));
}

}  // namespace sluice::python
