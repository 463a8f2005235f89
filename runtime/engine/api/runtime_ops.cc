#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/api/lease_state.h"
#include "runtime/engine/api/runtime_state.h"

namespace sluice::internal {
namespace {

/// Largest value that a schedule file may hold.
constexpr double kRecomputeSecondsMax = 1e9;

absl::Status CheckRecompute(std::string_view op, const engine::ResolvedAccess& access) {
  if (!access.recompute_seconds.has_value()) return absl::OkStatus();
  const double seconds = *access.recompute_seconds;
  const bool valid = seconds >= 0 && seconds <= kRecomputeSecondsMax;
  if (valid && access.mode != AccessMode::kRead) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("op '{}', tensor '{}': recompute_seconds is {}; {}",
                  op,
                  access.tensor->spec.name,
                  seconds,
                  valid ? "give it to an access that writes, this one reads"
                        : "give a number from 0 to 1e9, or none"));
}

/// Notices of the leases that are this mailbox's, which the caller sends.
std::vector<engine::ReleaseNotice> NoticesOf(std::span<const std::shared_ptr<LeaseState>> leases,
                                             const engine::Mailbox& mailbox) {
  std::vector<engine::ReleaseNotice> notices;
  for (const std::shared_ptr<LeaseState>& lease : leases) {
    // Another Runtime's lease goes its own way.
    const bool ours = lease != nullptr && lease->mailbox() == &mailbox;
    if (ours) notices.push_back(lease->TakeNotice());
  }
  return notices;
}

}  // namespace

absl::Status RuntimeState::BeginIteration(std::string_view key) {
  recorder_.BeginIteration(key);
  const core::BeginIteration event{keys_.IndexOf(key)};
  mover_->BeginIteration();
  return mailbox_->Push(engine::EventRequest{event}) ? absl::OkStatus() : ShutDownError();
}

absl::Status RuntimeState::EndIteration() {
  if (!recorder_.EndIteration()) {
    return absl::FailedPreconditionError("no iteration has begun");
  }
  mover_->EndIteration();
  return mailbox_->Push(engine::EventRequest{core::EndIteration{}}) ? absl::OkStatus()
                                                                    : ShutDownError();
}

std::shared_ptr<OpState> RuntimeState::BeginOp(OpOptions options) {
  OpState::Identity identity;
  identity.number = next_op_++;
  identity.name_index = op_names_.IndexOf(options.name);
  identity.lane_index = lanes_.IndexOf(options.lane);
  identity.nested = options.nested;
  engine::OpRecord record = recorder_.BeginOp(options.name, options.lane);
  identity.name = std::move(options.name);
  return engine::MakeOwned<OpState>(weak_from_this(), std::move(identity), std::move(record));
}

absl::StatusOr<engine::TicketDraft> RuntimeState::DraftAccesses(std::span<const Access> accesses,
                                                                OpState* op) const {
  SLUICE_ASSIGN_OR_RETURN(const auto resolved, table_.Resolve(accesses, *tiers_));
  const std::string_view name = op == nullptr ? "prefetch" : std::string_view(op->identity().name);
  for (const engine::ResolvedAccess& access : resolved) {
    SLUICE_RETURN_IF_ERROR(CheckRecompute(name, access));
  }
  SLUICE_ASSIGN_OR_RETURN(engine::TicketDraft draft, engine::DraftTicket(resolved));
  if (op != nullptr) op->record().AddAccesses(resolved);
  return draft;
}

std::shared_ptr<TicketState> RuntimeState::AcquireAll(
    const std::shared_ptr<OpState>& op,
    std::span<const Access> accesses,
    std::span<const std::shared_ptr<LeaseState>> before) {
  auto draft = DraftAccesses(accesses, op.get());
  if (!draft.ok()) return engine::MakeOwned<TicketState>(op, draft.status());
  core::Acquire event;
  event.ticket = next_ticket_++;
  event.op = op->identity().number;
  event.lane = op->identity().lane_index;
  event.name = op->identity().name_index;
  event.requests = draft->requests;
  event.nested = op->identity().nested;
  auto ticket = engine::MakeOwned<TicketState>(
      event.ticket,
      *std::move(draft),
      op,
      TicketState::Context{
          mailbox_, waits_, tiers_, tiers_->device(), options_.fill_overwrite_with_nan});
  if (event.requests.empty()) {
    ticket->Grant({});  // an op that needs nothing
  } else if (!mailbox_->Offer({ticket, std::move(event)}, NoticesOf(before, *mailbox_))) {
    ticket->Fail(ShutDownError());
  }
  return ticket;
}

absl::Status RuntimeState::Prefetch(std::span<const Access> accesses, std::uint32_t ops_ahead) {
  SLUICE_ASSIGN_OR_RETURN(engine::TicketDraft draft, DraftAccesses(accesses, nullptr));
  if (draft.requests.empty()) return absl::OkStatus();
  const bool pushed = mailbox_->Push(engine::PrefetchRequest{std::move(draft), ops_ahead});
  return pushed ? absl::OkStatus() : ShutDownError();
}

}  // namespace sluice::internal
