#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/tensor.h"
#include "sluice/tier.h"

/// The ops of one iteration, as a Runtime recorded them:
///
///   auto schedule = runtime->RecordedSchedule("train");
///   if (!schedule.ok()) return schedule.status();  // before the first iteration has ended
///   for (const sluice::ScheduleOp& op : schedule->ops) {
///     for (const sluice::ScheduleAccess& access : op.accesses) {
///       Count(schedule->tensors[access.tensor].name, access.range.bytes, op.seconds);
///     }
///   }

namespace sluice {

/// A tensor of a schedule.
struct ScheduleTensor {
  std::string name;
  TensorKind kind = TensorKind::kOther;
  std::uint64_t bytes = 0;
  /// Number of the segment. Tensors of one segment may share pages.
  std::uint32_t segment = 0;
  /// First byte of the tensor within its segment.
  std::uint64_t segment_offset = 0;
};

/// An access of a recorded op; `tensor` indexes Schedule::tensors.
struct ScheduleAccess {
  std::uint32_t tensor = 0;
  ByteRange range;
  AccessMode mode = AccessMode::kRead;
  TierId tier;
  /// Access::recompute_seconds of the recorded access.
  std::optional<double> recompute_seconds = std::nullopt;
};

/// A recorded op: OpOptions, time, accesses, and the content that dies after it.
struct ScheduleOp {
  std::string name;
  std::string lane;
  /// Time from the first Ticket::Take to the end, stalls excluded. 0: no ticket was taken, or
  /// the op has not ended.
  double seconds = 0;
  /// Accesses in the order of the requests.
  std::vector<ScheduleAccess> accesses;
  /// Ranges that were discarded or freed after this op. Only tensor and range have a meaning: mode,
  /// tier and recompute_seconds say nothing. The op is the last one before the discard that asks
  /// for the tensor. A discard that comes before the first of them stands at the last one, and at
  /// the iteration's last op if no op asks for the tensor.
  std::vector<ScheduleAccess> discards;
};

/// The recorded ops of one iteration of one key, in the order in which they were requested.
struct Schedule {
  std::string key;
  std::uint64_t page_bytes = 0;
  std::vector<ScheduleTensor> tensors;
  std::vector<ScheduleOp> ops;
};

}  // namespace sluice
