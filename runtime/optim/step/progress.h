#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/step_state.h"

namespace sluice::optim {

/// The step that each part has reached, and the failures of parts. Threads: any.
class Progress {
 public:
  /// Adds the next entry, with all parts at `step`.
  void Add(std::uint32_t parts, std::int64_t step);
  std::int64_t Of(Part part) const;
  void Reached(Part part, std::int64_t step);
  /// Whether all parts of the entry have reached the step.
  bool HasReached(std::uint32_t entry, std::int64_t step) const;
  /// Whether any part of any entry has reached the step.
  bool AnyHasReached(std::int64_t step) const;
  void Failed(Part part, const Failure& failure);
  /// Forgets failures, as their step is skipped.
  void ForgetFailures();
  /// Sets every part of the entry to the step, without an update.
  void Set(std::uint32_t entry, std::int64_t step);
  /// Sets every part to the step, after a load.
  void SetAll(std::int64_t step);

  /// A part that is behind, and its failure, if it has one.
  struct Behind {
    std::uint32_t part = 0;
    std::optional<Failure> why;
  };
  struct Summary {
    std::int64_t least = 0;
    std::vector<Behind> behind;
  };
  Summary SummaryOf(std::uint32_t entry, std::int64_t step) const;

 private:
  mutable base::Mutex mutex_;
  std::vector<std::vector<std::int64_t>> reached_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Failure> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::optim
