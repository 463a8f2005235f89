#include "runtime/optim/parameters/state_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::optim {
namespace {

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

/// Whether the tensor takes half a page or more. It has a segment of its own then, so that its
/// parts lie in one page each. Smaller tensors share pages, as each would waste most of one.
bool IsLarge(const TensorSpec& spec, Bytes page) {
  return 2 * SizeOf(spec).count() >= page.count();
}

}  // namespace

void StateTensors::Free(const ParameterEntry& entry) const {
  // Tensors that were not created, and those that the runtime has lost, need no freeing.
  if (entry.has_master) static_cast<void>(runtime_.Free(entry.tensor));
  for (const TensorId state : entry.states) static_cast<void>(runtime_.Free(state));
  for (const TensorId scale : entry.scales) static_cast<void>(runtime_.Free(scale));
  if (entry.accumulator != TensorId()) static_cast<void>(runtime_.Free(entry.accumulator));
}

absl::StatusOr<NewEntry> StateTensors::Describe(TensorId parameter, std::uint32_t group) const {
  NewEntry made;
  ParameterEntry& entry = made.entry;
  SLUICE_ASSIGN_OR_RETURN(entry, table_.Describe(parameter));
  entry.group = group;
  const auto add = [&](const std::string& suffix, std::uint64_t count, DType of) {
    made.specs.push_back(SpecOf(entry.name + suffix, count, of, options_.lowest));
  };
  const auto states = static_cast<std::size_t>(StateCount(options_.kind));
  constexpr const char* kSuffixes[] = {".m", ".v"};
  entry.states.resize(states);
  for (std::size_t s = 0; s < states; ++s) {
    add(kSuffixes[s], entry.count, TypeOf(options_.state));
  }
  if (options_.state == StateType::k8Bit) {
    entry.scales.resize(states);
    const std::uint64_t blocks = (entry.count + kStateBlock - 1) / kStateBlock;
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

std::vector<TensorId*> StateTensors::TensorsOf(ParameterEntry& entry) const {
  std::vector<TensorId*> places;
  for (TensorId& state : entry.states) places.push_back(&state);
  for (TensorId& scale : entry.scales) places.push_back(&scale);
  if (options_.accumulate) places.push_back(&entry.accumulator);
  if (entry.has_master) places.push_back(&entry.tensor);
  return places;
}

/// A page of each large tensor, and of a parameter that is the Runtime's; small tensors share
/// pages.
Bytes StateTensors::BytesNeeded(const ParameterEntry& entry, std::int64_t large_tensors) const {
  const bool is_tensor = entry.memory.empty() && !entry.has_master;
  const std::int64_t pages = is_tensor ? 1 + std::max<std::int64_t>(large_tensors, 1)
                                       : std::max<std::int64_t>(large_tensors, 2);
  return runtime_.PageBytes() * static_cast<std::uint64_t>(pages);
}

/// Bytes of the gradient sums that never leave dram, with those of `more`.
Bytes StateTensors::SumsInDram(const std::vector<NewEntry>& more) const {
  if (!options_.accumulate || options_.accumulator_lowest != TierKind::kDram) return {};
  std::uint64_t elements = 0;
  for (const ParameterEntry& entry : table_.entries) elements += entry.count;
  for (const NewEntry& made : more) elements += made.entry.count;
  return Bytes(elements * SizeOf(*options_.accumulate));
}

absl::Status StateTensors::CheckDram(const std::string& group,
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
absl::Status StateTensors::CheckRoom(const std::string& group,
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

absl::Status StateTensors::Create(const std::string& group, std::vector<NewEntry>* entries) const {
  // One segment for the small ones of each lowest tier.
  std::map<TierKind, std::pair<std::vector<TensorSpec>, std::vector<TensorId*>>> small;
  for (NewEntry& made : *entries) {
    const std::vector<TensorId*> places = TensorsOf(made.entry);
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
  return CheckRoom(group, *entries);
}

}  // namespace sluice::optim
