#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/sim/files/schedule_reader.h"

namespace sluice::sim {

struct ReadSpec {
  std::optional<std::string> key;
  ReadLimits limits;
  /// Bytes that are handed over at once.
  std::size_t piece = 1 << 16;
};

/// Reads a file "f" of this content.
inline absl::StatusOr<FileSchedule> ReadText(std::string_view text, const ReadSpec& spec = {}) {
  ScheduleReader reader({.file = "f", .key = spec.key, .limits = spec.limits});
  for (; !text.empty(); text.remove_prefix(std::min(spec.piece, text.size()))) {
    const absl::Status status = reader.Append(text.substr(0, spec.piece));
    if (!status.ok()) return status;
  }
  return reader.Finish();
}

}  // namespace sluice::sim
