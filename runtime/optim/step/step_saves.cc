#include <chrono>
#include <utility>

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
  LetGoOfPages();
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

void StepRunner::LetGoOfPages() {
  pipeline_.Clear();
  while (!held_.empty()) UpdateHeld();
  parts_asked_ = 0;
}

}  // namespace sluice::optim
