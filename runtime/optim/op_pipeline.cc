#include "runtime/optim/op_pipeline.h"

#include <chrono>
#include <utility>

#include "base/status.h"

namespace sluice::optim {

void OpPipeline::Ask(const std::string& name, const std::vector<Access>& accesses) {
  Op op = runtime_.BeginOp({.name = name, .lane = lane_});
  Ticket ticket = op.AcquireAll(accesses);
  asked_.push_back({std::move(op), std::move(ticket)});
}

absl::StatusOr<RunningOp> OpPipeline::Next() {
  Asked asked = std::move(asked_.front());
  asked_.pop_front();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<Lease>> leases = asked.ticket.Take();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  wait_seconds_ += waited.count();
  SLUICE_RETURN_IF_ERROR(leases.status());
  return RunningOp{std::move(asked.op), *std::move(leases)};
}

}  // namespace sluice::optim
