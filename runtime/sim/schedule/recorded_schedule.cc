#include "runtime/sim/schedule/recorded_schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/sim/schedule/merge_accesses.h"

namespace sluice::sim {
namespace {

std::vector<ScheduleTensor> TensorsOf(const FileSchedule& schedule) {
  std::vector<ScheduleTensor> tensors;
  std::map<std::uint64_t, std::uint32_t> segments;
  std::uint32_t next = 0;
  for (const FileTensor& tensor : schedule.tensors) {
    std::uint32_t segment = next;
    if (tensor.segment.has_value()) {
      segment = segments.try_emplace(*tensor.segment, next).first->second;
    }
    if (segment == next) ++next;
    tensors.push_back({.name = tensor.name,
                       .kind = tensor.kind,
                       .bytes = tensor.bytes,
                       .segment = segment,
                       .segment_offset = tensor.segment.has_value() ? tensor.segment_offset : 0});
  }
  return tensors;
}

TierId TierOf(const FileOp& op, std::uint32_t tensor) {
  const auto found = std::lower_bound(
      op.exceptions.begin(),
      op.exceptions.end(),
      tensor,
      [](const TierException& exception, std::uint32_t t) { return exception.tensor < t; });
  return found != op.exceptions.end() && found->tensor == tensor ? found->tier : op.tier;
}

bool Contains(const std::vector<FileAccess>& merged, const FileAccess& wanted) {
  const auto found = std::lower_bound(
      merged.begin(), merged.end(), wanted, [](const FileAccess& a, const FileAccess& b) {
        return std::pair(a.tensor, a.range.offset) < std::pair(b.tensor, b.range.offset);
      });
  return found != merged.end() && *found == wanted;
}

/// Seconds of each merged write: the sum over its parts; none if one of them has no seconds.
std::vector<std::optional<double>> RecomputeSecondsOf(const FileOp& op,
                                                      const std::vector<FileAccess>& merged) {
  if (op.recompute_seconds.empty()) return std::vector<std::optional<double>>(merged.size());
  std::vector<std::optional<double>> sums(merged.size(), 0);
  for (std::size_t i = 0; i < op.writes.size(); ++i) {
    const auto behind = std::upper_bound(
        merged.begin(), merged.end(), op.writes[i], [](const FileAccess& a, const FileAccess& b) {
          return std::pair(a.tensor, a.range.offset) < std::pair(b.tensor, b.range.offset);
        });
    std::optional<double>& sum = sums[static_cast<std::size_t>(behind - merged.begin()) - 1];
    const std::optional<double>& seconds = op.recompute_seconds[i];
    sum = sum.has_value() && seconds.has_value() ? std::optional(*sum + *seconds) : std::nullopt;
  }
  return sums;
}

ScheduleOp ToOp(const FileOp& op) {
  ScheduleOp result{.name = op.name, .lane = op.lane, .seconds = op.seconds};
  const std::vector<FileAccess> reads = MergeAccesses(op.reads);
  const std::vector<FileAccess> writes = MergeAccesses(op.writes);
  const auto add = [&](const FileAccess& access, AccessMode mode) {
    result.accesses.push_back({access.tensor, access.range, mode, TierOf(op, access.tensor)});
  };
  for (const FileAccess& read : reads) {
    add(read, Contains(writes, read) ? AccessMode::kReadWrite : AccessMode::kRead);
  }
  const std::vector<std::optional<double>> seconds = RecomputeSecondsOf(op, writes);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (Contains(reads, writes[i])) continue;
    add(writes[i], AccessMode::kOverwrite);
    result.accesses.back().recompute_seconds = seconds[i];
  }
  return result;
}

/// Discards each transient tensor after the last op that touches it.
void DiscardTransient(const FileSchedule& file, Schedule* schedule) {
  std::vector<bool> done(file.tensors.size());
  for (std::size_t i = 0; i < done.size(); ++i) done[i] = file.tensors[i].persistent;
  for (std::size_t op = schedule->ops.size(); op-- > 0;) {
    for (const ScheduleAccess& access : schedule->ops[op].accesses) {
      if (done[access.tensor]) continue;
      done[access.tensor] = true;
      schedule->ops[op].discards.push_back(
          {access.tensor, kWholeTensor, AccessMode::kOverwrite, access.tier});
    }
  }
}

}  // namespace

Schedule ToSchedule(const FileSchedule& schedule, std::uint64_t page_bytes) {
  SLUICE_CHECK(page_bytes > 0, "pages have a size");
  Schedule result{.key = schedule.key, .page_bytes = page_bytes, .tensors = TensorsOf(schedule)};
  for (const FileOp& op : schedule.ops) result.ops.push_back(ToOp(op));
  DiscardTransient(schedule, &result);
  return result;
}

}  // namespace sluice::sim
