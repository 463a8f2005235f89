#include "runtime/optim/step/op_pipeline.h"

#include <utility>

#include "base/status.h"

namespace sluice::optim {

void OpPipeline::Ask(const std::string& name, const std::vector<Access>& accesses) {
  Op op = runtime_.BeginOp({.name = name, .lane = lane_});
  Ticket ticket = op.AcquireAll(accesses);
  asked_.push_back({std::move(op), std::move(ticket)});
}

absl::StatusOr<RunningOp> OpPipeline::NextBefore(Ticket::Deadline deadline) {
  Asked asked = std::move(asked_.front());
  asked_.pop_front();
  if (absl::Status late = asked.ticket.Wait(deadline); absl::IsDeadlineExceeded(late)) return late;
  absl::StatusOr<std::vector<Lease>> leases = asked.ticket.Take();
  const WaitTimes waited = asked.ticket.waited();
  waited_.read_seconds += waited.read_seconds;
  waited_.write_seconds += waited.write_seconds;
  SLUICE_RETURN_IF_ERROR(leases.status());
  return RunningOp{std::move(asked.op), *std::move(leases)};
}

}  // namespace sluice::optim
