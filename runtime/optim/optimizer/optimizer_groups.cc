#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
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

DType TypeOf(StateType type) {
  if (type == StateType::k8Bit) return DType::kU8;
  return type == StateType::kBf16 ? DType::kBF16 : DType::kF32;
}

TensorSpec SpecOf(std::string name, std::uint64_t count, DType type, TierKind lowest) {
  return {.name = std::move(name),
          .shape = {static_cast<std::int64_t>(count)},
          .dtype = type,
          .kind = TensorKind::kOptimizer,
          .lowest = lowest};
}

/// Half a page and more: a segment of its own, so that its parts lie in one page each. Smaller ones
/// share pages, as each would waste most of one.
bool IsLarge(const TensorSpec& spec, Bytes page) {
  return 2 * SizeOf(spec).count() >= page.count();
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
                                   self->OnStepOver(failed, skipped);
                                 }}));
  return impl;
}

OffloadedOptimizer::Impl::Impl(Runtime& runtime, const OptimizerOptions& options)
    : runtime_(runtime),
      options_(options),
      parts_{.elements = runtime.PageBytes().count() / sizeof(float)},
      table_(runtime) {}

OffloadedOptimizer::Impl::~Impl() {
  save_thread_.reset();
  runner_.reset();
  // Whatever the thread had come to; a step that is over stays what it is.
  if (state_ != nullptr && !state_->over()) {
    state_->Fail(absl::CancelledError("the optimizer was destroyed"));
  }
  for (const ParameterEntry& entry : table_.entries) FreeTensors(entry);
}

void OffloadedOptimizer::Impl::FreeTensors(const ParameterEntry& entry) {
  // Those that were not created, and those that the runtime has lost, need no freeing.
  if (entry.has_master) static_cast<void>(runtime_.Free(entry.tensor));
  for (const TensorId state : entry.states) static_cast<void>(runtime_.Free(state));
  for (const TensorId scale : entry.scales) static_cast<void>(runtime_.Free(scale));
  if (entry.accumulator != TensorId()) static_cast<void>(runtime_.Free(entry.accumulator));
}

absl::Status OffloadedOptimizer::Impl::CheckIdle() const {
  SLUICE_RETURN_IF_ERROR(CheckLoaded());
  const base::MutexLock lock(mutex_);
  if (state_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      failed_ ? "the last step failed in part; Step repeats what is missing of it, Load replaces it"
              : "a step is under way; wait for it first (Step, then StepHandle::Wait)");
}

absl::Status OffloadedOptimizer::Impl::CheckNew(const GroupOptions& options) const {
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  SLUICE_RETURN_IF_ERROR(optim::CheckRates(options.name, options.rates));
  if (options.parameters.empty()) return Invalid("group '{}' has no parameters", options.name);
  for (const Group& group : groups_) {
    if (group.name == options.name) return Invalid("there is a group '{}' already", options.name);
  }
  std::set<std::uint64_t> seen;
  for (const TensorId parameter : options.parameters) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name, table_.NameOf(parameter));
    if (table_.entry_of.contains(parameter.value) || !seen.insert(parameter.value).second) {
      return Invalid("group '{}': '{}' has a group already", options.name, name);
    }
    if (const std::string use = table_.UseOf(parameter, false); !use.empty()) {
      return Invalid("group '{}': '{}' is {}", options.name, name, use);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OffloadedOptimizer::Impl::NewEntry> OffloadedOptimizer::Impl::MakeEntry(
    TensorId parameter, std::uint32_t group) const {
  NewEntry made;
  ParameterEntry& entry = made.entry;
  SLUICE_ASSIGN_OR_RETURN(entry, table_.Describe(parameter));
  entry.group = group;
  const auto add = [&](const std::string& suffix, std::uint64_t count, DType of) {
    made.specs.push_back(SpecOf(entry.name + suffix, count, of, options_.lowest));
  };
  const auto states = static_cast<std::size_t>(optim::StateCount(options_.kind));
  constexpr const char* kSuffixes[] = {".m", ".v"};
  entry.states.resize(states);
  for (std::size_t s = 0; s < states; ++s) {
    add(kSuffixes[s], entry.count, TypeOf(options_.state));
  }
  if (options_.state == StateType::k8Bit) {
    entry.scales.resize(states);
    const std::uint64_t blocks = (entry.count + optim::kStateBlock - 1) / optim::kStateBlock;
    for (std::size_t s = 0; s < states; ++s) {
      add(std::string(kSuffixes[s]) + ".scale", blocks, DType::kF32);
    }
  }
  if (options_.accumulate) {
    made.specs.push_back(SpecOf(
        entry.name + ".sum", entry.count, *options_.accumulate, options_.accumulator_lowest));
    made.specs.back().kind = TensorKind::kGradient;
  }
  if (entry.has_master) add(".master", entry.count, DType::kF32);
  return made;
}

std::vector<TensorId*> OffloadedOptimizer::Impl::PlacesOf(ParameterEntry& entry) const {
  std::vector<TensorId*> places;
  for (TensorId& state : entry.states) places.push_back(&state);
  for (TensorId& scale : entry.scales) places.push_back(&scale);
  if (options_.accumulate) places.push_back(&entry.accumulator);
  if (entry.has_master) places.push_back(&entry.tensor);
  return places;
}

/// A page of each large tensor, and of a parameter that is the Runtime's; small tensors share
/// pages.
Bytes OffloadedOptimizer::Impl::BytesNeeded(const ParameterEntry& entry,
                                            std::int64_t large_tensors) const {
  const bool is_tensor = entry.memory.empty() && !entry.has_master;
  const std::int64_t pages = is_tensor ? 1 + std::max<std::int64_t>(large_tensors, 1)
                                       : std::max<std::int64_t>(large_tensors, 2);
  return runtime_.PageBytes() * static_cast<std::uint64_t>(pages);
}

/// What the sums of gradients take that never leave dram, with those of `more`.
Bytes OffloadedOptimizer::Impl::SumsInDram(const std::vector<NewEntry>& more) const {
  if (!options_.accumulate || options_.accumulator_lowest != TierKind::kDram) return {};
  std::uint64_t elements = 0;
  for (const ParameterEntry& entry : table_.entries) elements += entry.count;
  for (const NewEntry& made : more) elements += made.entry.count;
  return Bytes(elements * SizeOf(*options_.accumulate));
}

absl::Status OffloadedOptimizer::Impl::CheckDram(const std::string& group,
                                                 const std::vector<NewEntry>& entries) const {
  const Stats stats = runtime_.GetStats();
  const auto dram = stats.tiers.find("dram");
  const Bytes budget(dram == stats.tiers.end() ? 0 : dram->second.budget_bytes);
  const Bytes page = runtime_.PageBytes();
  const Bytes sums = SumsInDram(entries);
  for (const NewEntry& made : entries) {
    // Sums that stay in dram are in `sums`.
    const auto large = [&](const TensorSpec& spec) {
      const bool stays = spec.kind == TensorKind::kGradient && spec.lowest == TierKind::kDram;
      return IsLarge(spec, page) && !stays;
    };
    const auto pages = std::count_if(made.specs.begin(), made.specs.end(), large);
    const Bytes needed = BytesNeeded(made.entry, pages);
    if (needed + sums <= budget) continue;
    return absl::ResourceExhaustedError(base::ToAbsl(fmt::format(
        "group '{}': an update of '{}' needs {} of dram at least, pages of {} of it and its "
        "states{}; "
        "dram has {}: raise tiers.dram.bytes (RuntimeOptions::dram_bytes) or take smaller pages",
        group,
        made.entry.name,
        ToString(needed + sums),
        ToString(page),
        sums == Bytes()
            ? std::string()
            : fmt::format(" and {} of sums (OptimizerOptions::accumulator_lowest)", ToString(sums)),
        ToString(budget))));
  }
  return absl::OkStatus();
}

/// Pages that may go to nvme need frames of dram beside those of pages that stay there, wherever
/// the tensors came to be committed.
absl::Status OffloadedOptimizer::Impl::CheckRoom(const std::string& group,
                                                 const std::vector<NewEntry>& entries) const {
  const Stats stats = runtime_.GetStats();
  const auto dram = stats.tiers.find("dram");
  const auto nvme = stats.tiers.find("nvme");
  if (dram == stats.tiers.end() || nvme == stats.tiers.end()) return absl::OkStatus();
  if (nvme->second.committed_bytes == 0) return absl::OkStatus();
  const Bytes page = runtime_.PageBytes();
  const Bytes stays(dram->second.committed_bytes + dram->second.transit_bytes);
  const Bytes budget(dram->second.budget_bytes);
  for (const NewEntry& made : entries) {
    const auto pages = std::count_if(made.specs.begin(), made.specs.end(), [&](const auto& spec) {
      return IsLarge(spec, page) && spec.lowest == TierKind::kNvme;
    });
    const Bytes needed = BytesNeeded(made.entry, pages);
    if (needed + stays <= budget) continue;
    return absl::ResourceExhaustedError(base::ToAbsl(fmt::format(
        "group '{}': an update of '{}' needs {} of dram, where tensors that stay there and pages "
        "in "
        "transit hold {} of {}: raise tiers.nvme.bytes (RuntimeOptions::nvme_bytes), so that "
        "tensors find room there, or tiers.dram.bytes (RuntimeOptions::dram_bytes)",
        group,
        made.entry.name,
        ToString(needed),
        ToString(stays),
        ToString(budget))));
  }
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::CreateTensors(std::vector<NewEntry>* entries) {
  // One segment for the small ones of each lowest tier.
  std::map<TierKind, std::pair<std::vector<TensorSpec>, std::vector<TensorId*>>> small;
  for (NewEntry& made : *entries) {
    const std::vector<TensorId*> places = PlacesOf(made.entry);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (IsLarge(made.specs[i], runtime_.PageBytes())) {
        SLUICE_ASSIGN_OR_RETURN(*places[i], runtime_.CreateTensor(made.specs[i]));
      } else {
        small[made.specs[i].lowest].first.push_back(made.specs[i]);
        small[made.specs[i].lowest].second.push_back(places[i]);
      }
    }
  }
  for (auto& [lowest, tensors] : small) {
    SLUICE_ASSIGN_OR_RETURN(const auto ids, runtime_.CreateTensors(tensors.first));
    for (std::size_t i = 0; i < ids.size(); ++i) *tensors.second[i] = ids[i];
  }
  return absl::OkStatus();
}

absl::Status OffloadedOptimizer::Impl::MakeTensors(const std::string& group,
                                                   std::vector<NewEntry>* entries) {
  SLUICE_RETURN_IF_ERROR(CreateTensors(entries));
  SLUICE_RETURN_IF_ERROR(CheckRoom(group, *entries));
  for (const NewEntry& made : *entries) {
    if (made.entry.has_master) SLUICE_RETURN_IF_ERROR(values().TakeMaster(made.entry));
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupId> OffloadedOptimizer::Impl::AddGroup(const GroupOptions& options) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckNew(options));
  const auto id = static_cast<std::uint32_t>(groups_.size());
  std::vector<NewEntry> made;
  for (const TensorId parameter : options.parameters) {
    SLUICE_ASSIGN_OR_RETURN(NewEntry entry, MakeEntry(parameter, id));
    entry.entry.index = table_.entries.size() + made.size();
    entry.entry.steps_before = step();
    made.push_back(std::move(entry));
  }
  SLUICE_RETURN_IF_ERROR(CheckDram(options.name, made));
  if (const absl::Status created = MakeTensors(options.name, &made); !created.ok()) {
    for (const NewEntry& entry : made) FreeTensors(entry.entry);
    return base::Annotate(created, fmt::format("group '{}'", options.name));
  }
  Group group{.name = options.name, .rates = options.rates};
  for (std::size_t i = 0; i < made.size(); ++i) {
    NewEntry& entry = made[i];
    table_.entry_of[options.parameters[i].value] =
        static_cast<std::uint32_t>(table_.entries.size());
    group.entries.push_back(static_cast<std::uint32_t>(table_.entries.size()));
    for (const TensorId* own : PlacesOf(entry.entry)) {
      table_.owner_of[own->value] = static_cast<std::uint32_t>(table_.entries.size());
    }
    progress_.Add(parts_.PartsOf(entry.entry), step());
    table_.entries.push_back(std::move(entry.entry));
  }
  groups_.push_back(std::move(group));
  return GroupId{id};
}

absl::StatusOr<OffloadedOptimizer::Impl::Group*> OffloadedOptimizer::Impl::FindGroup(
    GroupId group) {
  if (group.value < groups_.size()) return &groups_[group.value];
  return Invalid("there is no group {}, of {}", group.value, groups_.size());
}

absl::StatusOr<OffloadedOptimizer::Impl::Group*> OffloadedOptimizer::Impl::FindIdleGroup(
    GroupId id) {
  Settle();
  SLUICE_ASSIGN_OR_RETURN(Group * group, FindGroup(id));
  if (!group->ready) return group;
  const base::MutexLock lock(mutex_);
  return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
      "the step of group '{}' {}",
      group->name,
      failed_ ? "failed in part; Step repeats what is missing of it, Load replaces all of it"
              : "is under way; wait for the whole of it first (Step, then StepHandle::Wait)")));
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
  if (id.value < groups_.size()) return groups_[id.value].rates;
  return Invalid("there is no group {}, of {}", id.value, groups_.size());
}

absl::StatusOr<ParameterEntry*> OffloadedOptimizer::Impl::FindValues(
    TensorId parameter, std::optional<std::size_t> elements) {
  Settle();
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (!elements || elements == entry->count) return entry;
  return Invalid("'{}' has {} elements, not {}", entry->name, entry->count, *elements);
}

absl::Status OffloadedOptimizer::Impl::SetStepsOf(TensorId parameter, std::int64_t steps) {
  const std::int64_t done = Settle();
  SLUICE_RETURN_IF_ERROR(CheckIdle());
  SLUICE_ASSIGN_OR_RETURN(ParameterEntry * entry, FindIdleEntry(parameter));
  if (steps < 0) return Invalid("'{}': {} steps", entry->name, steps);
  entry->steps_before = done - steps;
  return absl::OkStatus();
}

}  // namespace sluice
