#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/kernels/step_scalars.h"
#include "runtime/optim/step/step_runner.h"
#include "runtime/optim/step/work_span.h"

// The updates of a step, batch by batch.

namespace sluice::optim {
namespace {

/// An update's work is split between threads at multiples of this.
constexpr std::size_t kSplitElements = 4096;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

/// Name of a batch, that of its first part.
std::string StepRunner::NameOf(const UpdateBatch& batch) const {
  const Part first = batch.parts.front();
  return fmt::format("update.{}.{}", options_.entries[first.entry].name, first.index);
}

PartAccesses StepRunner::AccessesOfPart(Part part) const {
  const ParameterEntry& entry = options_.entries[part.entry];
  return AccessesOf(
      entry, SpecOf(entry), SourceOf(entry).tensor, options_.parts.RangeOf(entry, part.index));
}

/// One batch at least beside that which is next.
bool StepRunner::AsksForMore() const {
  const std::size_t asked = pipeline_.asked();
  if (asked == todo_.size()) return false;
  return asked + held_.size() < 2 || parts_asked_ + todo_[asked].parts.size() <= settings_.depth;
}

void StepRunner::AskAhead() {
  while (AsksForMore()) {
    const UpdateBatch& batch = todo_[pipeline_.asked()];
    std::vector<Access> accesses;
    for (const Part part : batch.parts) {
      const PartAccesses wanted = AccessesOfPart(part);
      accesses.insert(accesses.end(), wanted.accesses.begin(), wanted.accesses.end());
    }
    pipeline_.Ask(NameOf(batch), accesses);
    parts_asked_ += batch.parts.size();
  }
}

void StepRunner::UpdateOne() {
  AskAhead();
  while (held_.empty() && pipeline_.asked() > 0) HoldNext();
  // A save's thread writes some while others are updated. A batch that has not its pages yet may
  // wait for those of one that is held.
  while (!held_.empty() && held_.front().save_number != 0 && pipeline_.asked() > 0 &&
         pipeline_.NextIsReady()) {
    HoldNext();
  }
  if (!held_.empty()) UpdateHeld();
  FinishIfDone();
}

void StepRunner::UpdateParts(const UpdateBatch& batch, RunningOp running) {
  RunKernels(batch, running.leases);
  running.leases.clear();
  running.op.End();
  DiscardUsed(batch);
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    settings_.state->PartDone(batch.group, std::nullopt);
  }
}

void StepRunner::DiscardUsed(const UpdateBatch& batch) {
  if (!DiscardsEarly()) return;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const std::uint32_t entry = batch.parts[i].entry;
    const bool last = i + 1 == batch.parts.size() || batch.parts[i + 1].entry != entry;
    if (last && options_.progress.HasReached(entry, settings_.step)) DiscardGradient(entry);
  }
}

void StepRunner::TryEachAlone(const UpdateBatch& batch) {
  std::vector<UpdateBatch> alone;
  for (const Part part : batch.parts) alone.push_back({.parts = {part}, .group = batch.group});
  const auto next = todo_.begin() + static_cast<std::ptrdiff_t>(pipeline_.asked());
  todo_.insert(next, alone.begin(), alone.end());
}

void StepRunner::RunKernels(const UpdateBatch& batch, std::span<const Lease> leases) {
  const std::string name = NameOf(batch);
  const std::uint64_t elements = ElementsOf(options_.entries, options_.parts, batch);
  const WorkSpan span(
      options_.runtime, options_.optimizer.lane, name, elements, batch.parts.size());
  for (const Part part : batch.parts) {
    const std::size_t count = AccessesOfPart(part).accesses.size();
    RunKernel(part, batch.group, leases.first(count));
    leases = leases.subspan(count);
    options_.progress.Reached(part, settings_.step);
  }
}

void StepRunner::RunKernel(Part part, std::uint32_t group, std::span<const Lease> leases) {
  const auto start = std::chrono::steady_clock::now();
  const ParameterEntry& entry = options_.entries[part.entry];
  const KernelSpec spec = SpecOf(entry);
  const ElementRange range = options_.parts.RangeOf(entry, part.index);
  const PartMemory memory = MemoryOf(entry, spec, AccessesOfPart(part), leases, range);
  const absl::StatusOr<Kernel> kernel = FindKernel(spec);
  SLUICE_CHECK(kernel.ok(), "AddGroup and BindCopy allow what there are kernels for");
  const std::int64_t step = OwnStep(entry, settings_.step);
  const KernelArgs args{.scalars = MakeScalars(rates_[group], step, gradient_scale_),
                        .key = {.seed = options_.optimizer.seed,
                                .tensor = entry.index,
                                .step = static_cast<std::uint64_t>(step)},
                        .element = range.begin};
  const auto work = [&](std::size_t begin, std::size_t end) {
    UpdateElements(*kernel, args, memory, begin, end);
  };
  join_->ForEach(range.count, kSplitElements, work, NodeWithMost(leases));
  totals_.compute_seconds += SecondsSince(start);
}

void StepRunner::Fail(Part part, std::uint32_t group, const absl::Status& status) {
  const ParameterEntry& entry = options_.entries[part.entry];
  const ElementRange range = options_.parts.RangeOf(entry, part.index);
  const Failure failure =
      Failure::From(base::Annotate(status,
                                   fmt::format("step {}: '{}', elements {} to {}",
                                               settings_.step,
                                               entry.name,
                                               range.begin,
                                               range.begin + range.count - 1)));
  options_.progress.Failed(part, failure);
  settings_.state->PartDone(group, failure);
}

}  // namespace sluice::optim
