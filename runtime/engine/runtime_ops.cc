#include <utility>

#include "base/status.h"
#include "runtime/engine/runtime_state.h"

namespace sluice::internal {
absl::Status RuntimeState::BeginIteration(std::string_view key) {
  recorder_.BeginIteration(key);
  const core::BeginIteration event{keys_.IndexOf(KeyWithFates(key))};
  return mailbox_->Push(engine::EventRequest{event}) ? absl::OkStatus() : ShutDownError();
}

absl::Status RuntimeState::EndIteration() {
  if (!recorder_.EndIteration()) {
    return absl::FailedPreconditionError("no iteration has begun");
  }
  return mailbox_->Push(engine::EventRequest{core::EndIteration{}}) ? absl::OkStatus()
                                                                    : ShutDownError();
}

std::shared_ptr<OpState> RuntimeState::BeginOp(OpOptions options) {
  OpState::Identity identity;
  identity.number = next_op_++;
  identity.name_index = op_names_.IndexOf(options.name);
  identity.lane_index = lanes_.IndexOf(options.lane);
  engine::OpRecord record = recorder_.BeginOp(options.name, options.lane);
  identity.name = std::move(options.name);
  return engine::MakeOwned<OpState>(weak_from_this(), std::move(identity), std::move(record));
}

absl::StatusOr<engine::TicketPlan> RuntimeState::PlanRequest(std::span<const Access> accesses,
                                                             engine::OpRecord* record) const {
  SLUICE_ASSIGN_OR_RETURN(const auto resolved, table_.Resolve(accesses, *tiers_));
  SLUICE_ASSIGN_OR_RETURN(engine::TicketPlan plan, engine::BuildTicketPlan(resolved));
  if (record != nullptr) record->AddAccesses(resolved);
  return plan;
}

std::shared_ptr<TicketState> RuntimeState::AcquireAll(const std::shared_ptr<OpState>& op,
                                                      std::span<const Access> accesses) {
  auto plan = PlanRequest(accesses, &op->record());
  if (!plan.ok()) return engine::MakeOwned<TicketState>(op, plan.status());
  core::Acquire event;
  event.ticket = next_ticket_++;
  event.op = op->identity().number;
  event.lane = op->identity().lane_index;
  event.name = op->identity().name_index;
  event.requests = plan->requests;
  auto ticket = engine::MakeOwned<TicketState>(
      event.ticket,
      *std::move(plan),
      op,
      TicketState::Context{mailbox_, waits_, tiers_, options_.fill_overwrite_with_nan});
  if (event.requests.empty()) {
    ticket->Grant({});  // an op that needs nothing
  } else if (!mailbox_->Offer({ticket, std::move(event)})) {
    ticket->Fail(ShutDownError());
  }
  return ticket;
}

absl::Status RuntimeState::Prefetch(std::span<const Access> accesses) {
  SLUICE_ASSIGN_OR_RETURN(engine::TicketPlan plan, PlanRequest(accesses, nullptr));
  if (plan.requests.empty()) return absl::OkStatus();
  return mailbox_->Push(engine::PrefetchRequest{std::move(plan)}) ? absl::OkStatus()
                                                                  : ShutDownError();
}

}  // namespace sluice::internal
