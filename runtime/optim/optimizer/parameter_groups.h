#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// A group of parameters, and its part in the step under way.
struct ParameterGroup {
  std::string name;
  GroupRates rates;
  std::vector<std::uint32_t> entries;  ///< numbers of the parameters in ParameterTable::entries
  GroupRates step_rates = {};          ///< rates of the step under way
  bool ready = false;                  ///< gradients are complete, and the step is not over
  bool sits_out = false;               ///< Step was called without the group, and is not over
  bool accumulated = false;            ///< gradients have been added to the group's accumulators
};

/// Groups of an optimizer, by their ids. Some group is ready while there is a step under way.
/// Threads: externally synchronised.
class ParameterGroups {
 public:
  /// Whether a group may be added, but for its parameters. Errors: InvalidArgument.
  absl::Status CheckNew(const GroupOptions& options) const;
  GroupId Add(const GroupOptions& options, std::vector<std::uint32_t> entries);

  std::size_t size() const { return groups_.size(); }
  /// Errors: InvalidArgument (there is no such group).
  absl::StatusOr<ParameterGroup*> Find(GroupId group);
  absl::StatusOr<const ParameterGroup*> Find(GroupId group) const;
  ParameterGroup& operator[](std::size_t group) { return groups_[group]; }
  const ParameterGroup& operator[](std::size_t group) const { return groups_[group]; }
  std::vector<ParameterGroup>::const_iterator begin() const { return groups_.begin(); }
  std::vector<ParameterGroup>::const_iterator end() const { return groups_.end(); }

  bool all_ready() const;
  /// Whether each group has no part in the step under way.
  std::vector<bool> sits_out() const;
  /// Chooses the groups of a step: those that are ready. Errors: FailedPrecondition (none is ready,
  /// or some are not, without StepOptions::only_ready).
  absl::Status ChooseForStep(const StepOptions& options);
  /// Notes that the step is over. Returns the parameters that had no part in it, as
  /// ParameterGroup::entries does.
  std::vector<std::uint32_t> EndStep();
  /// Forgets the step and all gradients, as a Load is about to overwrite everything.
  void DropStep();

 private:
  std::vector<ParameterGroup> groups_;
};

}  // namespace sluice::optim
