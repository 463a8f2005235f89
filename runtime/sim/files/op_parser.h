#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/sim/files/json_line.h"
#include "runtime/sim/files/read_limits.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

using TensorIndex = absl::flat_hash_map<std::uint64_t, std::uint32_t>;

/// Context of an op's line: the lines before it, to which it may refer.
struct OpContext {
  std::span<const FileTensor> tensors;
  const TensorIndex& tensor_of_id;
  std::span<const FileOp> ops;
  const ReadLimits& limits;
};

struct ParsedOp {
  FileOp op;
  /// Ids in "after" that no earlier op has.
  std::vector<std::uint64_t> forward;
};

/// A tensor's line, apart from its place in the segment. Errors: InvalidArgument.
absl::StatusOr<FileTensor> ParseTensor(const Json& line, const ReadLimits& limits);

/// Parses an op's line. Errors: InvalidArgument that names the op and the tensor.
absl::StatusOr<ParsedOp> ParseOp(const Json& line, const OpContext& context);

}  // namespace sluice::sim
