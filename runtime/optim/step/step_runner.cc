#include "runtime/optim/step/step_runner.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <utility>

#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "runtime/optim/kernels/step_scalars.h"

namespace sluice::optim {
namespace {

GradientPasses::Options PassOptions(const StepRunner::Options& options) {
  const std::uint64_t blocks =
      std::max<std::uint64_t>(options.parts.elements / kSumOfSquaresBlock, 1);
  return {.lane = options.optimizer.lane, .range_elements = blocks * kSumOfSquaresBlock};
}

absl::Status NotTheFirstGradients() {
  return absl::FailedPreconditionError(
      "a gradient is not finite, but other parts have been updated by finite ones in this step; "
      "Step again with those, or Load a save");
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepRunner>> StepRunner::Create(const Options& options) {
  SLUICE_ASSIGN_OR_RETURN(auto join,
                          ForkJoin::Create(options.optimizer.threads, options.runtime.DramNodes()));
  auto runner = std::unique_ptr<StepRunner>(new StepRunner(options, std::move(join)));
  SLUICE_ASSIGN_OR_RETURN(runner->thread_, base::StartThread([self = runner.get()] {
                            base::SetUpThread("sluice-optim", {});
                            self->Run();
                          }));
  return runner;
}

StepRunner::StepRunner(const Options& options, std::unique_ptr<ForkJoin> join)
    : options_(options),
      join_(std::move(join)),
      pipeline_(options.runtime, options.optimizer.lane),
      passes_(options.runtime, *join_, PassOptions(options)) {}

StepRunner::~StepRunner() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void StepRunner::Post(Command command) {
  const base::MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  changed_.NotifyAll();
}

std::optional<StepRunner::Command> StepRunner::NextCommand() {
  const base::MutexLock lock(mutex_);
  while (!stop_ && commands_.empty() && !CanUpdate()) changed_.Wait(mutex_);
  if (stop_) return std::nullopt;
  if (commands_.empty()) return Command();
  Command command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void StepRunner::Run() {
  while (std::optional<Command> command = NextCommand()) {
    if (*command) {
      (*command)();
    } else {
      UpdateOne();
    }
    if (rest_wanted_ && !CanUpdate()) WriteRest();
    AskAhead();
  }
  for (const HeldBatch& held : held_) {
    if (held.save_number != 0) saver_->state()->WaitFor(held.save_number);
    WriteCopies(held.batch, held.running.leases);
  }
  held_.clear();
  LetGoOfPages(Soon());  // whoever destroys the optimizer may hold leases
}

void StepRunner::BeginStep(const StepSettings& settings) {
  Post([this, settings] {
    settings_ = settings;
    totals_ = {.waited_before = pipeline_.waited()};
    released_ = false;
    gradient_scale_ = 1;
    scan_status_ = absl::OkStatus();
    squares_.assign(options_.entries.size(), 0);
  });
}

absl::Status StepRunner::Accumulate(std::uint32_t index, bool first) {
  std::promise<std::shared_ptr<Failure>> promise;
  std::future<std::shared_ptr<Failure>> failure = promise.get_future();
  Post([&, this] {
    const ParameterEntry& entry = options_.entries[index];
    const GradientSource source{.type = *GradientTypeOf(entry.gradient->type),
                                .tensor = entry.gradient->tensor,
                                .bytes = entry.gradient->bytes};
    const GradientType sum_type = *GradientTypeOf(*options_.optimizer.accumulate);
    // Parts that are asked for ahead hold pages, and go before this pass in their lane.
    LetGoOfPages(std::chrono::steady_clock::now());
    const absl::Status status = passes_.Accumulate(entry, source, sum_type, first);
    promise.set_value(status.ok() ? nullptr : std::make_shared<Failure>(Failure::From(status)));
  });
  const std::shared_ptr<Failure> failed = failure.get();
  return failed == nullptr ? absl::OkStatus() : failed->ToStatus();
}

void StepRunner::Scan(std::uint32_t index) {
  Post([this, index] {
    if (!scan_status_.ok()) return;
    const ParameterEntry& entry = options_.entries[index];
    const absl::StatusOr<double> squares = passes_.Scan(entry, SourceOf(entry));
    scan_status_ = squares.status();
    if (squares.ok()) squares_[index] = *squares;
  });
}

void StepRunner::Update(std::uint32_t group, const GroupRates& rates, std::vector<Part> parts) {
  Post([this, group, rates, parts = std::move(parts)] {
    if (rates_.size() <= group) rates_.resize(group + 1);
    rates_[group] = rates;
    for (UpdateBatch& batch :
         MakeBatches(options_.entries, options_.parts, parts, settings_.batch_parts_max, group)) {
      todo_.push_back(std::move(batch));
    }
  });
}

void StepRunner::Release(const StepOptions& options, std::vector<bool> sits_out) {
  Post([this, options, sits_out = std::move(sits_out)] {
    sits_out_ = sits_out;
    OnRelease(options);
    FinishIfDone();
  });
}

void StepRunner::NoteNorm(const StepOptions& options) {
  if (settings_.norm_given) {
    totals_.norm = *options.gradient_norm / options.loss_scale;
    return;
  }
  // The sum is in the order of the parameters, whatever became ready first.
  double squares = 0;
  for (const double of_entry : squares_) squares += of_entry;
  totals_.norm = std::sqrt(squares) / options.loss_scale;
}

void StepRunner::OnRelease(const StepOptions& options) {
  released_ = true;
  gradient_scale_ = 1 / options.loss_scale;
  if (!settings_.waits) return;
  if (!scan_status_.ok()) return FailAll(scan_status_);
  NoteNorm(options);
  if (!std::isfinite(*totals_.norm) && settings_.skip_not_finite) {
    // Some parts would have the step and others not.
    if (options_.progress.AnyHasReached(settings_.step)) return FailAll(NotTheFirstGradients());
    GiveUp();
    options_.progress.ForgetFailures();
    return EndStep(true);
  }
  gradient_scale_ = ClipFactor(settings_.clip_norm, *totals_.norm) / options.loss_scale;
}

void StepRunner::FailAll(const absl::Status& status) {
  for (const UpdateBatch& batch : todo_) {
    for (const Part part : batch.parts) Fail(part, batch.group, status);
  }
  GiveUp();
}

void StepRunner::GiveUp() {
  LetGoOfPages(Ticket::Deadline::max());
  todo_.clear();
}

void StepRunner::FinishIfDone() {
  if (settings_.state != nullptr && released_ && !CanUpdate()) EndStep(false);
}

void StepRunner::EndStep(bool skipped) {
  if (settings_.state == nullptr) return;
  const std::shared_ptr<internal::StepState> state = std::exchange(settings_.state, nullptr);
  const bool failed = state->failed();
  const bool discards = !failed && (skipped || !DiscardsEarly());
  for (std::uint32_t i = 0; discards && i < options_.entries.size(); ++i) {
    if (!sits_out_[options_.entries[i].group]) DiscardGradient(i);
  }
  if (!failed) WriteRest();
  options_.over(failed, skipped);
  const WaitTimes& before = totals_.waited_before;
  const double read = pipeline_.waited().read_seconds - before.read_seconds;
  const double write = pipeline_.waited().write_seconds - before.write_seconds;
  state->Finish({.step = settings_.step,
                 .skipped = skipped,
                 .groups = static_cast<std::uint32_t>(std::ranges::count(sits_out_, false)),
                 .gradient_norm = totals_.norm,
                 .wait_seconds = read + write,
                 .wait_read_seconds = read,
                 .wait_write_seconds = write,
                 .compute_seconds = totals_.compute_seconds,
                 .save_seconds = totals_.save_seconds});
}

void StepRunner::DiscardGradient(std::uint32_t index) {
  const ParameterEntry& entry = options_.entries[index];
  // The results do not matter: a tensor that does not exist has nothing to discard.
  if (entry.accumulator != TensorId()) {
    static_cast<void>(options_.runtime.Discard(entry.accumulator));
  }
  if (entry.gradient && entry.gradient->discard) {
    static_cast<void>(options_.runtime.Discard(entry.gradient->tensor));
  }
}

GradientSource StepRunner::SourceOf(const ParameterEntry& entry) const {
  if (options_.optimizer.accumulate) {
    return {.type = *GradientTypeOf(*options_.optimizer.accumulate), .tensor = entry.accumulator};
  }
  return {.type = *GradientTypeOf(entry.gradient->type),
          .tensor = entry.gradient->tensor,
          .bytes = entry.gradient->bytes};
}

KernelSpec StepRunner::SpecOf(const ParameterEntry& entry) const {
  KernelSpec spec{.optimizer = options_.optimizer.kind,
                  .parameter = entry.type,
                  .state = options_.optimizer.state,
                  .gradient = SourceOf(entry).type};
  if (entry.copy) {
    spec.copy = CopyTypeOf(entry.copy->type);
  }
  return spec;
}

}  // namespace sluice::optim
