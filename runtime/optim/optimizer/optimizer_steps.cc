#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/optimizer/optimizer_impl.h"

namespace sluice {
namespace {

using optim::NotReady;
using optim::ParameterEntry;
using optim::Part;

/// Updates that are asked for ahead before anything has been measured.
constexpr std::size_t kDepthAtFirst = 8;
/// The share of dram that updates which are asked for ahead may take.
constexpr std::uint64_t kShareOfDram = 4;
/// Batches per depth, so that parts that come do not wait for a whole batch.
constexpr std::size_t kBatchesInDepth = 4;

/// Limits of the loss scale, far beyond fp32. The inverse is still a product of two normal fp32
/// numbers.
constexpr double kLossScaleMin = 1e-75;
constexpr double kLossScaleMax = 1e75;

/// Bytes of a part's pages in dram, about: a page of each of its tensors, but for a copy.
std::uint64_t BytesOfPart(const Runtime& runtime, const OptimizerOptions& options) {
  const auto states = static_cast<std::uint64_t>(optim::StateCount(options.kind));
  const std::uint64_t pages = 2 + states * (options.state == StateType::k8Bit ? 2 : 1);
  return pages * runtime.PageBytes().count();
}

std::size_t DepthMax(const Runtime& runtime, const OptimizerOptions& options, const Stats& stats) {
  const auto dram = stats.tiers.find("dram");
  const std::uint64_t budget = dram == stats.tiers.end() ? 0 : dram->second.budget_bytes;
  return std::max<std::uint64_t>(budget / kShareOfDram / BytesOfPart(runtime, options), 1);
}

std::size_t Depth(const Runtime& runtime, const OptimizerOptions& options) {
  if (options.depth > 0) return options.depth;
  const Stats stats = runtime.GetStats();
  const std::size_t limit = DepthMax(runtime, options, stats);
  const auto link = stats.links.find("dram-nvme");
  if (link == stats.links.end() || !(link->second.in.busy_seconds > 0)) {
    return std::min(kDepthAtFirst, limit);
  }
  // Depth for twice the bytes that come in while one slow read is under way.
  const DirectionStats& in = link->second.in;
  const double rate = static_cast<double>(in.bytes) / in.busy_seconds;
  const double ahead = 2 * rate * in.latency.p99_us * 1e-6;
  const auto wanted =
      static_cast<std::size_t>(ahead / static_cast<double>(BytesOfPart(runtime, options))) + 2;
  return std::min(wanted, limit);
}

// The number depends on no measurement: ops other than those of the step before would have no plan.
std::size_t BatchPartsMax(const Runtime& runtime, const OptimizerOptions& options) {
  const std::size_t limit = DepthMax(runtime, options, runtime.GetStats());
  const std::size_t depth = options.depth > 0 ? std::min<std::size_t>(options.depth, limit) : limit;
  return std::clamp<std::size_t>(depth / kBatchesInDepth, 1, optim::kBatchPartsMax);
}

absl::Status CheckStep(const OptimizerOptions& optimizer, const StepOptions& options) {
  if (!(options.loss_scale >= kLossScaleMin && options.loss_scale <= kLossScaleMax)) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("loss_scale is {}, allowed are {} to {}",
                                 options.loss_scale,
                                 kLossScaleMin,
                                 kLossScaleMax)));
  }
  if (options.loss_scale != 1 && !(optimizer.clip_norm > 0 || optimizer.skip_not_finite)) {
    return absl::InvalidArgumentError(
        "a loss_scale needs skip_not_finite (or clip_norm): updates start before it is known");
  }
  if (options.gradient_norm && *options.gradient_norm < 0) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
        "gradient_norm is {}, it must be 0 or more, or infinite or NaN where a gradient is",
        *options.gradient_norm)));
  }
  if (options.gradient_norm.has_value() == optimizer.norm_given) return absl::OkStatus();
  return absl::InvalidArgumentError(optimizer.norm_given
                                        ? "norm_given is set, and Step has no gradient_norm"
                                        : "Step has a gradient_norm, and norm_given is not set");
}

}  // namespace

bool OffloadedOptimizer::Impl::backwards() const {
  return options_.order == SweepOrder::kAlternate && step() % 2 != 0;
}

std::int64_t OffloadedOptimizer::Impl::Settle() {
  const optim::CurrentStep::Outcome outcome = current_.TakeOutcome();
  if (!outcome.over) return outcome.done;
  gradients_.Clear();
  for (const std::uint32_t index : groups_.EndStep()) {
    if (outcome.skipped) continue;
    ++table_.entries[index].steps_before;
    progress_.Set(index, outcome.done);
  }
  return outcome.done;
}

absl::Status OffloadedOptimizer::Impl::CheckGradients(const Group& group) const {
  SLUICE_RETURN_IF_ERROR(current_.CheckLoaded());
  for (const std::uint32_t index : group.entries) {
    const ParameterEntry& entry = table_.entries[index];
    if (!entry.gradient) {
      return NotReady(
          "group '{}': '{}' has no gradient; BindGradient first", group.name, entry.name);
    }
    const TensorId tensor = entry.gradient->tensor;
    if (tensor == TensorId() || runtime_.NameOfTensor(tensor).ok()) continue;
    return NotReady(
        "group '{}': the gradient of '{}' was freed; BindGradient first", group.name, entry.name);
  }
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::Accumulate(Group& group) {
  const bool first = !std::exchange(group.accumulated, true);
  for (const std::uint32_t index : group.entries) {
    SLUICE_RETURN_IF_ERROR(
        base::Annotate(runner_->Accumulate(index, first),
                       fmt::format("gradient of '{}'", table_.entries[index].name)));
  }
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::AddGradient(GroupId id) {
  SLUICE_ASSIGN_OR_RETURN(Group * group, FindIdleGroup(id));
  if (!options_.accumulate) {
    return NotReady("gradients are not accumulated; set OptimizerOptions::accumulate");
  }
  SLUICE_RETURN_IF_ERROR(CheckGradients(*group));
  return Accumulate(*group);
}

absl::Status OffloadedOptimizer::Impl::ResetGradient(GroupId id) {
  SLUICE_ASSIGN_OR_RETURN(Group * group, FindIdleGroup(id));
  if (!options_.accumulate) {
    return NotReady("gradients are not accumulated; set OptimizerOptions::accumulate");
  }
  group->accumulated = false;
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::GradientReady(GroupId id) {
  SLUICE_ASSIGN_OR_RETURN(Group * group, FindIdleGroup(id));
  if (group->sits_out) {
    return NotReady(
        "group '{}' has no part in the step that was started; finish that first (StepHandle::Wait)",
        group->name);
  }
  SLUICE_RETURN_IF_ERROR(CheckGradients(*group));
  SLUICE_RETURN_IF_ERROR(gradients_.Add(table_.entries, group->entries));
  if (options_.accumulate) SLUICE_RETURN_IF_ERROR(Accumulate(*group));
  if (current_.state() == nullptr) BeginStep();
  group->ready = true;
  group->step_rates = group->rates;
  if (!NeedsAllGradients()) {
    Update(id.value);
    return absl::OkStatus();
  }
  Scan(*group);
  // Pages of the updates come in while the norm completes.
  if (groups_.all_ready()) UpdateReady();
  return absl::OkStatus();
}

void OffloadedOptimizer::Impl::BeginStep() {
  current_.Begin(groups_.size());
  runner_->BeginStep({.step = step() + 1,
                      .state = current_.state(),
                      .waits = NeedsAllGradients(),
                      .clip_norm = options_.clip_norm,
                      .skip_not_finite = options_.skip_not_finite,
                      .norm_given = options_.norm_given,
                      .depth = Depth(runtime_, options_),
                      .batch_parts_max = BatchPartsMax(runtime_, options_)});
}

std::vector<std::uint32_t> OffloadedOptimizer::Impl::GroupOrder() const {
  std::vector<std::uint32_t> order(groups_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  if (backwards()) std::reverse(order.begin(), order.end());
  return order;
}

std::vector<Part> OffloadedOptimizer::Impl::PartsLeft(const Group& group) const {
  const std::int64_t target = step() + 1;
  std::vector<Part> parts;
  for (const std::uint32_t entry : group.entries) {
    for (std::uint32_t part = 0; part < parts_.PartsOf(table_.entries[entry]); ++part) {
      if (progress_.Of({entry, part}) < target) parts.push_back({entry, part});
    }
  }
  if (backwards()) std::reverse(parts.begin(), parts.end());
  return parts;
}

void OffloadedOptimizer::Impl::Update(std::uint32_t group) {
  std::vector<Part> parts = PartsLeft(groups_[group]);
  current_.state()->Expect(group, parts.size());
  runner_->Update(group, groups_[group].step_rates, std::move(parts));
}

void OffloadedOptimizer::Impl::Scan(const Group& group) {
  if (!NeedsAllGradients() || options_.norm_given) return;
  for (const std::uint32_t index : group.entries) runner_->Scan(index);
}

absl::StatusOr<StepHandle> OffloadedOptimizer::Impl::Step(const StepOptions& options) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckStep(options_, options));
  SLUICE_RETURN_IF_ERROR(current_.CheckLoaded());
  SLUICE_RETURN_IF_ERROR(groups_.ChooseForStep(options));
  SLUICE_ASSIGN_OR_RETURN(const bool repeats, current_.Release());
  std::vector<bool> sits_out = groups_.sits_out();
  if (repeats) {
    Repeat();
  } else if (NeedsAllGradients() && std::ranges::count(sits_out, true) > 0) {
    UpdateReady();
  }
  for (std::uint32_t group = 0; group < groups_.size(); ++group) {
    if (sits_out[group]) current_.state()->Expect(group, 0);
  }
  runner_->Release(options, std::move(sits_out));
  return StepHandle(current_.state());
}

void OffloadedOptimizer::Impl::Repeat() {
  BeginStep();
  for (const Group& group : groups_) {
    if (group.ready) Scan(group);
  }
  UpdateReady();
}

void OffloadedOptimizer::Impl::UpdateReady() {
  for (const std::uint32_t group : GroupOrder()) {
    if (groups_[group].ready) Update(group);
  }
}

absl::Status OffloadedOptimizer::Impl::WaitFor(GroupId id, Ticket::Deadline deadline) {
  Settle();
  SLUICE_ASSIGN_OR_RETURN(const Group* group, groups_.Find(id));
  if (!group->ready) return absl::OkStatus();
  if (NeedsAllGradients() && !current_.was_released()) {
    return NotReady("the update of group '{}' starts at Step: call that first", group->name);
  }
  return current_.state()->WaitFor(id, deadline);
}

absl::StatusOr<ParameterState> OffloadedOptimizer::Impl::State(TensorId parameter) {
  const std::int64_t steps = Settle();
  const auto found = table_.entry_of.find(parameter.value);
  if (found == table_.entry_of.end()) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name, table_.NameOf(parameter));
    return absl::NotFoundError(
        base::ToAbsl(fmt::format("'{}' is no parameter of this optimizer", name)));
  }
  const ParameterEntry& entry = table_.entries[found->second];
  const optim::Progress::Summary summary = progress_.SummaryOf(found->second, steps);
  ParameterState state{.master = entry.has_master ? entry.tensor : TensorId(),
                       .states = entry.states,
                       .scales = entry.scales,
                       .step = optim::OwnStep(entry, summary.least)};
  for (const optim::Progress::Behind& behind : summary.behind) {
    state.missing.push_back(
        {.elements = parts_.RangeOf(entry, behind.part),
         .why = behind.why ? behind.why->ToStatus() : absl::UnavailableError("not updated yet")});
  }
  return state;
}

}  // namespace sluice
