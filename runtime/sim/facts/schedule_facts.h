#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/sim/facts/op_groups.h"
#include "runtime/sim/facts/reuse_distance.h"
#include "runtime/sim/schedule/extents.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// An amount, and the first op at which it is reached.
struct Peak {
  std::uint64_t bytes = 0;
  std::size_t op = 0;
};

/// All tensors of one kind.
struct KindFacts {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::uint64_t persistent_bytes = 0;
};

/// Demands of a schedule on a machine, whatever the machine. Bytes are counted in whole pages, but
/// for those of KindFacts.
struct ScheduleFacts {
  std::uint64_t persistent_bytes = 0;
  /// Bytes of persistent tensors, and of those born and not dead yet.
  Peak live;
  /// Bytes that one op needs at once.
  Peak working_set;
  std::array<KindFacts, kTensorKindCount> kinds{};
  OpGroups groups;
  std::vector<Reuse> reuses;
  /// Numbers of tensors that no op touches, and of inputs: those that live within the iteration and
  /// are read before an op writes them.
  std::uint64_t untouched = 0;
  std::uint64_t unwritten = 0;
};

/// Finds the facts. Errors: ResourceExhausted (cut into too many pieces). Time: about n log n in
/// the bytes that all ops touch.
absl::StatusOr<ScheduleFacts> FindFacts(const FileSchedule& schedule, const ExtentOptions& options);

}  // namespace sluice::sim
