#include "workloads/gpt/memory/paged_memory.h"

#include <utility>

#include "workloads/gpt/model/status.h"

namespace sluice::gpt {
namespace {

class LeasedBuffers : public OpBuffers {
 public:
  explicit LeasedBuffers(const std::vector<Lease>& leases) : leases_(leases) {}
  std::span<std::byte> Contiguous(std::size_t access) const override {
    return leases_[access].Contiguous();
  }
  std::span<const std::span<std::byte>> Spans(std::size_t access) const override {
    return leases_[access].Spans();
  }

 private:
  const std::vector<Lease>& leases_;
};

}  // namespace

absl::StatusOr<std::vector<TensorId>> PagedMemory::CreateTensors(
    std::span<const TensorSpec> specs) {
  return runtime_.CreateTensors(specs);
}

absl::Status PagedMemory::BeginIteration(std::string_view key) {
  GPT_RETURN_IF_ERROR(Flush());
  in_iteration_ = true;
  return runtime_.BeginIteration(key);
}

absl::Status PagedMemory::EndIteration() {
  GPT_RETURN_IF_ERROR(Flush());
  return std::exchange(in_iteration_, false) ? runtime_.EndIteration() : absl::OkStatus();
}

void PagedMemory::SetRecomputeSeconds(OpSpec* spec) const {
  const auto last = seconds_.find(spec->name);
  if (last == seconds_.end()) return;
  for (Access& access : spec->accesses) {
    if (access.mode == AccessMode::kOverwrite) access.recompute_seconds = last->second;
  }
}

/// Asks for an op's tensors. A discard acts after the requests made before it, and before those
/// made after it. So it is issued right after its op's request, although the op has not run.
absl::StatusOr<PagedMemory::Asked> PagedMemory::Ask(OpSpec spec) {
  SetRecomputeSeconds(&spec);
  Op op = runtime_.BeginOp({.name = spec.name, .lane = spec.lane});
  Ticket ticket = op.AcquireAll(spec.accesses);
  for (const auto& [tensor, range] : spec.discards) {
    GPT_RETURN_IF_ERROR(runtime_.Discard(tensor, range));
  }
  return Asked{std::move(spec), std::move(op), std::move(ticket)};
}

absl::Status PagedMemory::Execute(Asked asked) {
  const auto asked_at = std::chrono::steady_clock::now();
  GPT_ASSIGN_OR_RETURN(const std::vector<Lease> leases, asked.ticket.Take());
  OpTiming timing{.begin = std::chrono::steady_clock::now()};
  const std::chrono::duration<double> stalled = timing.begin - asked_at;
  stall_seconds_ += stalled.count();
  asked.spec.compute(LeasedBuffers(leases));
  timing.end = std::chrono::steady_clock::now();
  if (asked.spec.repeatable) {
    seconds_[asked.spec.name] = std::chrono::duration<double>(timing.end - timing.begin).count();
  }
  timing.name = std::move(asked.spec.name);
  asked.op.End();
  if (observer_) observer_(timing);
  return absl::OkStatus();
}

absl::Status PagedMemory::Run(OpSpec op) {
  GPT_ASSIGN_OR_RETURN(Asked next, Ask(std::move(op)));
  std::optional<Asked> current = std::exchange(asked_, std::move(next));
  return current ? Execute(*std::move(current)) : absl::OkStatus();
}

absl::Status PagedMemory::Flush() {
  std::optional<Asked> current = std::exchange(asked_, std::nullopt);
  return current ? Execute(*std::move(current)) : absl::OkStatus();
}

void PagedMemory::Abandon() {
  asked_.reset();
  // The error would be that of the op that is given up.
  if (std::exchange(in_iteration_, false)) runtime_.EndIteration().IgnoreError();
}

void PagedMemory::SetObserver(OpObserver observer) { observer_ = std::move(observer); }

}  // namespace sluice::gpt
