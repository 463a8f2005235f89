#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/tensor.h"
#include "sluice/tier.h"
#include "sluice/units.h"

namespace sluice::sim {

/// A schedule as a schedule file holds it (docs/lab.md). Tensors and ops are referred to by their
/// index here; `id` is what the file calls them.

enum class TensorHome : std::uint8_t { kStore, kFile };

struct FileTensor {
  std::uint64_t id = 0;
  std::string name;
  std::uint64_t bytes = 0;
  /// Whether the tensor exists from iteration to iteration. Any other is born at the first op that
  /// touches it, and dies after the last one.
  bool persistent = false;
  TensorHome home = TensorHome::kStore;
  TensorKind kind = TensorKind::kOther;
  /// Tensors of one segment share pages; none: the tensor has pages of its own.
  std::optional<std::uint64_t> segment;
  /// First byte of the tensor within its segment.
  std::uint64_t segment_offset = 0;

  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};

/// A part of a tensor, never empty and within it.
struct FileAccess {
  std::uint32_t tensor = 0;
  ByteRange range;

  friend bool operator==(const FileAccess&, const FileAccess&) = default;
};

/// A tensor that an op needs in another tier than its others.
struct TierException {
  std::uint32_t tensor = 0;
  TierId tier;

  friend bool operator==(const TierException&, const TierException&) = default;
};

/// Line of an object in its file, counted from 1; 0: it is in none. The line is no part of the
/// object, so all lines compare equal.
struct FileLine {
  std::uint64_t number = 0;

  friend bool operator==(const FileLine&, const FileLine&) { return true; }
};

struct FileOp {
  std::uint64_t id = 0;
  std::string name;
  /// Ops of one lane run one after another, lanes beside each other.
  std::string lane = "gpu";
  double seconds = 0;
  /// Tier in which the op's tensors must be, all at once.
  TierId tier = kHbm0;
  /// Tensors in other tiers, by rising tensor, each once.
  std::vector<TierException> exceptions;
  std::vector<FileAccess> reads;
  /// Written ranges. Bytes that are not in `reads`, too, need no old content.
  std::vector<FileAccess> writes;
  /// Earlier ops that must end first; none: the previous op of the lane.
  std::optional<std::vector<std::uint32_t>> after;
  /// Seconds to make each of `writes` again in place of bringing it back. None: it cannot be made
  /// again. Empty: no write can.
  std::vector<std::optional<double>> recompute_seconds;
  FileLine line;

  friend bool operator==(const FileOp&, const FileOp&) = default;
};

/// One iteration of one key: tensors, and ops in execution order.
struct FileSchedule {
  std::string name;
  /// The iteration key; may be empty.
  std::string key;
  /// Source of the schedule; may be empty.
  std::string source;
  /// Page size of the runtime that recorded the schedule; 0 when unknown.
  std::uint64_t page_bytes = 0;
  std::vector<FileTensor> tensors;
  std::vector<FileOp> ops;

  friend bool operator==(const FileSchedule&, const FileSchedule&) = default;
};

}  // namespace sluice::sim
