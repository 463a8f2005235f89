#include "runtime/optim/optimizer/parameter_groups.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "runtime/optim/optimizer/errors.h"
#include "runtime/optim/optimizer/rates.h"

namespace sluice::optim {

namespace {

absl::Status NoGroup(GroupId group, std::size_t groups) {
  return Invalid("there is no group {}, of {}", group.value, groups);
}

}  // namespace

absl::Status ParameterGroups::CheckNew(const GroupOptions& options) const {
  SLUICE_RETURN_IF_ERROR(CheckRates(options.name, options.rates));
  if (options.parameters.empty()) return Invalid("group '{}' has no parameters", options.name);
  for (const ParameterGroup& group : groups_) {
    if (group.name == options.name) return Invalid("there is a group '{}' already", options.name);
  }
  return absl::OkStatus();
}

GroupId ParameterGroups::Add(const GroupOptions& options, std::vector<std::uint32_t> entries) {
  groups_.push_back({.name = options.name, .rates = options.rates, .entries = std::move(entries)});
  return GroupId{static_cast<std::uint32_t>(groups_.size() - 1)};
}

absl::StatusOr<ParameterGroup*> ParameterGroups::Find(GroupId group) {
  if (group.value < groups_.size()) return &groups_[group.value];
  return NoGroup(group, groups_.size());
}

absl::StatusOr<const ParameterGroup*> ParameterGroups::Find(GroupId group) const {
  if (group.value < groups_.size()) return &groups_[group.value];
  return NoGroup(group, groups_.size());
}

bool ParameterGroups::all_ready() const {
  return std::ranges::all_of(groups_, &ParameterGroup::ready);
}

std::vector<bool> ParameterGroups::sits_out() const {
  std::vector<bool> sits_out;
  for (const ParameterGroup& group : groups_) sits_out.push_back(group.sits_out);
  return sits_out;
}

absl::Status ParameterGroups::ChooseForStep(const StepOptions& options) {
  if (groups_.empty()) return NotReady("there is no group; AddGroup first");
  for (const ParameterGroup& group : groups_) {
    if (group.ready || group.sits_out || options.only_ready) continue;
    return NotReady(
        "the gradients of group '{}' are not complete; call GradientReady once they are, or set "
        "StepOptions::only_ready",
        group.name);
  }
  if (std::ranges::none_of(groups_, &ParameterGroup::ready)) {
    return NotReady("no group is ready; call GradientReady first");
  }
  for (ParameterGroup& group : groups_) group.sits_out = !group.ready;
  return absl::OkStatus();
}

std::vector<std::uint32_t> ParameterGroups::EndStep() {
  std::vector<std::uint32_t> without_part;
  for (ParameterGroup& group : groups_) {
    if (std::exchange(group.sits_out, false)) {
      without_part.insert(without_part.end(), group.entries.begin(), group.entries.end());
    } else {
      group.ready = group.accumulated = false;
    }
  }
  return without_part;
}

void ParameterGroups::DropStep() {
  for (ParameterGroup& group : groups_) group.ready = group.accumulated = group.sits_out = false;
}

}  // namespace sluice::optim
