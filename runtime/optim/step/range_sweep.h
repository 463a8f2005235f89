#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/optim/step/op_pipeline.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// An access to bytes in dram that needs no mapping.
Access InDram(TensorId tensor, ByteRange range, AccessMode mode);

/// A sweep through [0, count) in ranges, with an op for each. Some ops are asked for ahead.
struct RangeSweep {
  std::string name;         ///< name of the ops
  std::uint64_t count = 0;  ///< elements, or bytes, of all ranges
  std::uint64_t step = 0;   ///< elements, or bytes, of one op
  std::size_t depth = 4;    ///< ops that are asked for ahead of the one that works
  /// Accesses of the op of a range. If a range needs none, no range does, and the sweep has no ops.
  std::function<std::vector<Access>(ElementRange range)> accesses;
  std::function<absl::Status(ElementRange range, const std::vector<Lease>& leases)> work;
};

/// Runs the sweep. Blocks. Errors: those of Ticket::Take and of `work`. Ranges done before an error
/// stay done.
absl::Status Run(Runtime& runtime, const std::string& lane, const RangeSweep& sweep);

}  // namespace sluice::optim
