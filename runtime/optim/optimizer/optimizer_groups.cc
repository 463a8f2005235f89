#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/optimizer/optimizer_impl.h"
#include "runtime/optim/optimizer/rates.h"

namespace sluice {
namespace {

using optim::Invalid;
using optim::ParameterEntry;

bool MayHoldStates(TierKind lowest) {
  return lowest == TierKind::kDram || lowest == TierKind::kNvme;
}

absl::Status CheckEnums(const OptimizerOptions& options) {
  if (options.kind > OptimizerKind::kAdagrad) {
    return Invalid("kind is {}, which is no optimizer", static_cast<int>(options.kind));
  }
  if (options.state > StateType::k8Bit) {
    return Invalid("state is {}, which is no type of states", static_cast<int>(options.state));
  }
  if (options.order > SweepOrder::kForward) {
    return Invalid("order is {}, which is no order", static_cast<int>(options.order));
  }
  if (!MayHoldStates(options.lowest)) {
    return Invalid("lowest is {}, allowed are dram and nvme", ToString(options.lowest));
  }
  if (MayHoldStates(options.accumulator_lowest)) return absl::OkStatus();
  return Invalid("accumulator_lowest is {}, allowed are dram and nvme",
                 ToString(options.accumulator_lowest));
}

absl::Status CheckOptions(const OptimizerOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckEnums(options));
  if (options.threads < 1 || options.threads > 256) {
    return Invalid("threads is {}, allowed are 1 to 256", options.threads);
  }
  if (options.depth > 4096) return Invalid("depth is {}, allowed are 0 to 4096", options.depth);
  if (!(options.clip_norm >= 0) || !std::isfinite(options.clip_norm)) {
    return Invalid("clip_norm is {}, allowed is 0 or more, finite", options.clip_norm);
  }
  if (options.accumulate && *options.accumulate != DType::kF32 &&
      *options.accumulate != DType::kBF16) {
    return Invalid("accumulate is {}, allowed are f32 and bf16", ToString(*options.accumulate));
  }
  if (options.norm_given && options.clip_norm == 0 && !options.skip_not_finite) {
    return Invalid("norm_given needs clip_norm or skip_not_finite: nothing else needs a norm");
  }
  if (options.lane.empty()) return Invalid("lane is empty; \"optimizer\" is usual");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OffloadedOptimizer::Impl>> OffloadedOptimizer::Impl::Create(
    Runtime& runtime, const OptimizerOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::unique_ptr<Impl>(new Impl(runtime, options));
  SLUICE_ASSIGN_OR_RETURN(
      impl->runner_,
      optim::StepRunner::Create({.runtime = runtime,
                                 .optimizer = impl->options_,
                                 .parts = impl->parts_,
                                 .entries = impl->table_.entries,
                                 .progress = impl->progress_,
                                 .over = [self = impl.get()](bool failed, bool skipped) {
                                   self->current_.OnOver(failed, skipped);
                                 }}));
  return impl;
}

OffloadedOptimizer::Impl::Impl(Runtime& runtime, const OptimizerOptions& options)
    : runtime_(runtime),
      options_(options),
      parts_{.elements = runtime.PageBytes().count() / sizeof(float)},
      table_(runtime),
      tensors_(runtime, options_, table_),
      copies_(runtime, options_, table_, parts_.elements),
      saves_({.runtime = runtime,
              .optimizer = options_,
              .parts = parts_,
              .table = table_,
              .groups = groups_,
              .copies = copies_}) {}

OffloadedOptimizer::Impl::~Impl() {
  saves_.GiveUp();
  runner_.reset();
  current_.Cancel();
  for (const ParameterEntry& entry : table_.entries) tensors_.Free(entry);
}

absl::Status OffloadedOptimizer::Impl::MakeTensors(const std::string& group,
                                                   std::vector<optim::NewEntry>* entries) {
  SLUICE_RETURN_IF_ERROR(tensors_.Create(group, entries));
  for (const optim::NewEntry& made : *entries) {
    if (made.entry.has_master) SLUICE_RETURN_IF_ERROR(values().TakeMaster(made.entry));
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupId> OffloadedOptimizer::Impl::AddGroup(const GroupOptions& options) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  SLUICE_RETURN_IF_ERROR(groups_.CheckNew(options));
  SLUICE_RETURN_IF_ERROR(table_.CheckNew(options.name, options.parameters));
  const auto id = static_cast<std::uint32_t>(groups_.size());
  std::vector<optim::NewEntry> made;
  for (const TensorId parameter : options.parameters) {
    SLUICE_ASSIGN_OR_RETURN(optim::NewEntry entry, tensors_.Describe(parameter, id));
    entry.entry.index = options.first_number.value_or(table_.entries.size()) + made.size();
    entry.entry.steps_before = step();
    made.push_back(std::move(entry));
  }
  SLUICE_RETURN_IF_ERROR(tensors_.CheckDram(options.name, made));
  if (const absl::Status created = MakeTensors(options.name, &made); !created.ok()) {
    for (const optim::NewEntry& entry : made) tensors_.Free(entry.entry);
    return base::Annotate(created, fmt::format("group '{}'", options.name));
  }
  std::vector<std::uint32_t> entries;
  for (std::size_t i = 0; i < made.size(); ++i) {
    progress_.Add(parts_.PartsOf(made[i].entry), step());
    entries.push_back(table_.Add(options.parameters[i], std::move(made[i].entry)));
  }
  return groups_.Add(options, std::move(entries));
}

absl::StatusOr<OffloadedOptimizer::Impl::Group*> OffloadedOptimizer::Impl::FindIdleGroup(
    GroupId id) {
  Settle();
  SLUICE_ASSIGN_OR_RETURN(Group * group, groups_.Find(id));
  if (!group->ready) return group;
  return optim::NotReady(
      "the step of group '{}' {}",
      group->name,
      current_.failed()
          ? "failed in part; Step repeats what is missing of it, Load replaces all of it"
          : "is under way; wait for the whole of it first (Step, then StepHandle::Wait)");
}

absl::StatusOr<ParameterEntry*> OffloadedOptimizer::Impl::FindIdleEntry(TensorId parameter) {
  const auto found = table_.entry_of.find(parameter.value);
  if (found == table_.entry_of.end()) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name, table_.NameOf(parameter));
    return Invalid("'{}' is no parameter of this optimizer; AddGroup first", name);
  }
  ParameterEntry& entry = table_.entries[found->second];
  SLUICE_RETURN_IF_ERROR(FindIdleGroup({entry.group}).status());
  return &entry;
}

absl::Status OffloadedOptimizer::Impl::SetRates(GroupId id, const GroupRates& rates) {
  SLUICE_ASSIGN_OR_RETURN(Group * group, FindIdleGroup(id));
  SLUICE_RETURN_IF_ERROR(optim::CheckRates(group->name, rates));
  group->rates = rates;
  return absl::OkStatus();
}

absl::StatusOr<GroupRates> OffloadedOptimizer::Impl::Rates(GroupId id) const {
  SLUICE_ASSIGN_OR_RETURN(const Group* group, groups_.Find(id));
  return group->rates;
}

absl::Status OffloadedOptimizer::Impl::RefreshCopies(GroupId id) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(const Group* group, groups_.Find(id));
  return copies_.Refresh(group->entries);
}

absl::StatusOr<ParameterEntry*> OffloadedOptimizer::Impl::FindValues(
    TensorId parameter, std::optional<std::size_t> elements) {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (!elements || elements == entry->count) return entry;
  return Invalid("'{}' has {} elements, not {}", entry->name, entry->count, *elements);
}

absl::StatusOr<optim::ParameterTable*> OffloadedOptimizer::Impl::IdleParameters() {
  Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  saves_.Complete();
  return &table_;
}

absl::StatusOr<ParameterEntry*> OffloadedOptimizer::Impl::FindToWrite(
    TensorId parameter, std::optional<std::size_t> elements) {
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindValues(parameter, elements));
  saves_.Complete();
  return entry;
}

absl::Status OffloadedOptimizer::Impl::SetStepsOf(TensorId parameter, std::int64_t steps) {
  const std::int64_t done = Settle();
  SLUICE_RETURN_IF_ERROR(current_.CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (steps < 0) return Invalid("'{}': {} steps", entry->name, steps);
  entry->steps_before = done - steps;
  return absl::OkStatus();
}

}  // namespace sluice
