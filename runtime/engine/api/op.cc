#include "sluice/op.h"

#include <utility>

#include "base/status.h"
#include "runtime/engine/api/lease_state.h"
#include "runtime/engine/api/op_state.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/api/stream_state.h"
#include "runtime/engine/control/ticket_state.h"

namespace sluice {
namespace {

absl::Status EmptyTicket() {
  return absl::FailedPreconditionError("an empty ticket: nothing was asked for");
}

}  // namespace

Ticket::Ticket() = default;
Ticket::Ticket(std::shared_ptr<internal::TicketState> state) : state_(std::move(state)) {}
Ticket::Ticket(Ticket&&) noexcept = default;
Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}
Ticket::~Ticket() { Cancel(); }

bool Ticket::Ready() const { return state_ == nullptr || state_->Ready(); }

absl::Status Ticket::Wait(Deadline deadline) {
  return state_ == nullptr ? EmptyTicket() : state_->Wait(deadline);
}

void Ticket::Cancel() {
  if (state_ != nullptr) state_->Cancel();
}

WaitTimes Ticket::waited() const { return state_ == nullptr ? WaitTimes() : state_->waited(); }

absl::StatusOr<std::vector<Lease>> Ticket::Take() {
  if (state_ == nullptr) return EmptyTicket();
  auto states = state_->Take();
  if (!states.ok()) return states.status();
  std::vector<Lease> leases;
  leases.reserve(states->size());
  for (auto& state : *states) leases.push_back(Lease(std::move(state)));
  return leases;
}

Op::Op() = default;
Op::Op(std::shared_ptr<internal::OpState> state) : state_(std::move(state)) {}
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(Op&& other) noexcept {
  if (this != &other) {
    End();
    state_ = std::move(other.state_);
  }
  return *this;
}
Op::~Op() { End(); }

Ticket Op::AcquireAll(std::span<const Access> accesses) {
  const auto runtime = state_ == nullptr ? nullptr : state_->runtime();
  if (runtime == nullptr) {
    return Ticket(std::make_shared<internal::TicketState>(
        state_, absl::CancelledError("the op has ended or its runtime has shut down")));
  }
  if (absl::Status child = runtime->CheckProcess(); !child.ok()) {
    return Ticket(std::make_shared<internal::TicketState>(state_, std::move(child)));
  }
  return Ticket(runtime->AcquireAll(state_, accesses));
}

Ticket Op::AcquireAll(std::span<const Access> accesses, std::vector<Lease> before) {
  const auto runtime = state_ == nullptr ? nullptr : state_->runtime();
  if (runtime == nullptr || !runtime->CheckProcess().ok()) return AcquireAll(accesses);
  std::vector<std::shared_ptr<internal::LeaseState>> states;
  for (Lease& lease : before) states.push_back(std::move(lease.state_));
  return Ticket(runtime->AcquireAll(state_, accesses, states));
}

Ticket Op::AcquireAll(std::initializer_list<Access> accesses) {
  return AcquireAll(std::span(accesses.begin(), accesses.size()));
}

Ticket Op::AcquireAll(std::initializer_list<Access> accesses, std::vector<Lease> before) {
  return AcquireAll(std::span(accesses.begin(), accesses.size()), std::move(before));
}

absl::StatusOr<Lease> Op::Acquire(const Access& access) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<Lease> leases, AcquireAll({&access, 1}).Take());
  return std::move(leases.front());
}

absl::Status Op::EndAfter(StreamRef stream) {
  if (state_ == nullptr || stream.state_ == nullptr) {
    End();
    return absl::OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(stream.state_->Notify(
      [op = state_](const absl::Status&) { op->End(internal::OpState::Clock::now()); }));
  state_ = nullptr;
  return absl::OkStatus();
}

void Op::End() {
  if (state_ == nullptr) return;
  state_->End(internal::OpState::Clock::now());
  state_ = nullptr;
}

}  // namespace sluice
