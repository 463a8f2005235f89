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

/// Goes through [0, count) in ranges, an op for each, some of which are asked for ahead.
struct RangeSweep {
  std::string name;         ///< name of the ops
  std::uint64_t count = 0;  ///< elements, or bytes, of all ranges
  std::uint64_t step = 0;   ///< elements, or bytes, of one op
  std::size_t depth = 4;    ///< ops that are asked for ahead of the one that works
  /// What the op of a range needs. None, for all ranges alike: there are no ops then.
  std::function<std::vector<Access>(ElementRange range)> accesses;
  std::function<absl::Status(ElementRange range, const std::vector<Lease>& leases)> work;
};

/// Blocks. Errors: those of Ticket::Take and of `work`; what was done by then stays done.
absl::Status Run(Runtime& runtime, const std::string& lane, const RangeSweep& sweep);

}  // namespace sluice::optim
