#include "python/binding/python_op.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "python/binding/status.h"
#include "python/binding/waiting.h"

namespace sluice::python {
namespace {

/// The longest timeout, in seconds: 30 years, which no clock overflows.
constexpr double kTimeoutMax = 1e9;

AccessMode ModeOf(const std::string& mode) {
  if (mode == "r") return AccessMode::kRead;
  if (mode == "rw") return AccessMode::kReadWrite;
  if (mode == "w") return AccessMode::kOverwrite;
  Raise(absl::InvalidArgumentError(
      "mode is \"" + mode +
      "\"; allowed are \"r\" (read), \"rw\" (change) and \"w\" (write all anew)"));
}

Ticket::Deadline DeadlineAfter(std::optional<double> timeout) {
  if (!timeout) return Ticket::Deadline::max();
  if (!(*timeout >= 0)) Raise(absl::InvalidArgumentError("timeout is no number of seconds"));
  const std::chrono::duration<double> seconds(std::min(*timeout, kTimeoutMax));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(seconds);
}

std::string NamesOf(const std::vector<Request>& requests) {
  std::string names;
  for (const Request& request : requests) {
    names += (names.empty() ? "'" : ", '") + std::get<0>(request)->name() + "'";
  }
  return names;
}

}  // namespace

Access AccessOf(const Request& request) {
  const auto& [tensor, offset, bytes, mode, tier] = request;
  tensor->RefuseFreed();
  Access access{.tensor = tensor->id(), .range = {offset, bytes}, .mode = ModeOf(mode)};
  if (tier) access.tier = ValueOrRaise(ParseTierId(*tier));
  return access;
}

PythonOp::PythonOp(std::shared_ptr<Session> session,
                   std::string name,
                   std::optional<std::string> lane,
                   bool nested)
    : session_(std::move(session)), name_(std::move(name)) {
  const std::shared_ptr<Runtime> runtime = session_->runtime();
  if (!lane) {
    lane_thread_ = std::this_thread::get_id();
    lane = session_->BeginLane(*lane_thread_);
  }
  op_ = runtime->BeginOp({.name = name_, .lane = *lane, .nested = nested});
}

PythonOp::~PythonOp() { End(); }

void PythonOp::RefuseOwnDeadlock(const std::vector<Request>& requests,
                                 const std::vector<Access>& accesses) const {
  std::vector<TensorUse> uses;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    uses.push_back({std::get<0>(requests[i]).get(), accesses[i].range, accesses[i].mode});
  }
  session_->RefuseOwnDeadlock(uses);
}

std::vector<std::shared_ptr<HeldLease>> PythonOp::Acquire(
    const std::vector<Request>& requests,
    std::optional<double> timeout,
    const std::vector<std::shared_ptr<HeldLease>>& before) {
  StopIfLeaving();
  std::vector<Lease> handed_over;
  for (const std::shared_ptr<HeldLease>& lease : before) handed_over.push_back(lease->Take());
  std::vector<Access> accesses;
  for (const Request& request : requests) accesses.push_back(AccessOf(request));
  const Ticket::Deadline deadline = DeadlineAfter(timeout);
  RefuseOwnDeadlock(requests, accesses);
  Ticket ticket = op_.AcquireAll(accesses, std::move(handed_over));
  const absl::Status waited = WaitWithSignals(ticket, deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    Raise(absl::DeadlineExceededError("op '" + name_ + "': no lease of " + NamesOf(requests) +
                                      " within the timeout"));
  }
  std::vector<Lease> leases = ValueOrRaise(ticket.Take());
  std::vector<std::shared_ptr<HeldLease>> held;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    held.push_back(std::make_shared<HeldLease>(
        std::get<0>(requests[i]), std::move(leases[i]), accesses[i].range));
  }
  return held;
}

absl::StatusOr<Lease> PythonOp::AcquireFrames(const TensorState& tensor, const Access& access) {
  session_->RefuseOwnDeadlock({{&tensor, access.range, access.mode}});
  Ticket ticket = op_.AcquireAll({access});
  const absl::Status waited = WaitWithSignals(ticket, Ticket::Deadline::max());
  if (!waited.ok()) return waited;
  absl::StatusOr<std::vector<Lease>> leases = ticket.Take();
  if (!leases.ok()) return leases.status();
  return std::move(leases->front());
}

void PythonOp::End() {
  op_.End();
  if (!lane_thread_) return;
  session_->EndLane(*lane_thread_);
  lane_thread_.reset();
}

}  // namespace sluice::python
