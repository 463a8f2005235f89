#include <chrono>
#include <utility>

#include "runtime/optim/parameters/parameter_copies.h"
#include "runtime/optim/step/step_runner.h"

// Saves beside updates.

namespace sluice::optim {

void StepRunner::BeginSave(std::shared_ptr<PartSaver> saver) {
  Post([this, saver = std::move(saver)] { saver_ = saver; });
}

void StepRunner::WriteRestOfSave() {
  Post([this] { rest_wanted_ = true; });
}

void StepRunner::WriteRest() {
  rest_wanted_ = false;
  if (saver_ == nullptr || saver_->state()->has_every_part()) return;
  LetGoOfPages(Soon());
  saver_->WriteRest([this] {
    const base::MutexLock lock(mutex_);
    return stop_;
  });
}

void StepRunner::HoldNext() {
  absl::StatusOr<RunningOp> running = pipeline_.Next();
  UpdateBatch batch = std::move(todo_.front());
  todo_.pop_front();
  if (!running.ok()) {
    parts_asked_ -= batch.parts.size();
    if (batch.parts.size() > 1) return TryEachAlone(batch);
    return Fail(batch.parts.front(), batch.group, running.status());
  }
  HeldBatch held{.batch = std::move(batch), .running = *std::move(running)};
  if (saver_ != nullptr) {
    std::span<const Lease> leases = held.running.leases;
    for (const Part part : held.batch.parts) {
      saver_->Add(part, leases);
      leases = leases.subspan(AccessesOfPart(part).accesses.size());
    }
    held.save_number = saver_->Submit();
  }
  held_.push_back(std::move(held));
}

void StepRunner::UpdateHeld() {
  HeldBatch held = std::move(held_.front());
  held_.pop_front();
  if (held.save_number != 0) {
    const auto begin = std::chrono::steady_clock::now();
    saver_->state()->WaitFor(held.save_number);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    totals_.save_seconds += waited.count();
  }
  UpdateParts(held.batch, std::move(held.running));
  parts_asked_ -= held.batch.parts.size();
}

void StepRunner::WriteCopies(const UpdateBatch& batch, std::span<const Lease> leases) const {
  for (const Part part : batch.parts) {
    const ParameterEntry& entry = options_.entries[part.entry];
    const KernelSpec spec = SpecOf(entry);
    const ElementRange range = options_.parts.RangeOf(entry, part.index);
    const PartAccesses accesses = AccessesOfPart(part);
    const PartMemory memory = MemoryOf(entry, spec, accesses, leases, range);
    if (accesses.copy) CopyElements(memory.parameter, memory.copy, spec.copy, range.count);
    leases = leases.subspan(accesses.accesses.size());
  }
}

/// An op that has its pages has overwritten the copies among them.
void StepRunner::LetGoOfPages(Ticket::Deadline deadline) {
  for (std::size_t i = 0; pipeline_.asked() > 0; ++i) {
    if (!HasCopies(options_.entries, todo_[i])) {
      pipeline_.DropNext();
      continue;
    }
    const absl::StatusOr<RunningOp> running = pipeline_.NextBefore(deadline);
    if (running.ok()) WriteCopies(todo_[i], running->leases);
  }
  while (!held_.empty()) UpdateHeld();
  parts_asked_ = 0;
}

}  // namespace sluice::optim
