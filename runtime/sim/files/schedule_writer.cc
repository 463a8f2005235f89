#include "runtime/sim/files/schedule_writer.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "runtime/sim/files/schedule_lines.h"

namespace sluice::sim {
namespace {

using TensorFacts = OpNames::TensorFacts;

bool IsWhole(const ScheduleTensor& tensor, ByteRange range) {
  return range.offset == 0 && range.bytes >= tensor.bytes;
}

std::vector<bool> FindPersistent(const Schedule& recorded) {
  std::vector<bool> persistent(recorded.tensors.size(), true);
  for (const ScheduleOp& op : recorded.ops) {
    for (const ScheduleAccess& access : op.accesses) persistent[access.tensor] = true;
    for (const ScheduleAccess& discard : op.discards) {
      if (IsWhole(recorded.tensors[discard.tensor], discard.range)) {
        persistent[discard.tensor] = false;
      }
    }
  }
  return persistent;
}

FileTensor ToFile(std::size_t index, const ScheduleTensor& tensor, bool persistent) {
  return {.id = index,
          .name = tensor.name,
          .bytes = tensor.bytes,
          .persistent = persistent,
          .kind = tensor.kind,
          .segment = tensor.segment,
          .segment_offset = tensor.segment_offset};
}

/// The fastest tier that the op uses; hbm for an op without tensors.
TierId FastestTier(const ScheduleOp& op) {
  TierId fastest = op.accesses.empty() ? kHbm0 : kNvme0;
  for (const ScheduleAccess& access : op.accesses) fastest = std::min(fastest, access.tier);
  return fastest;
}

ByteRange Clip(const ScheduleTensor& tensor, ByteRange range) {
  return {range.offset, std::min(range.bytes, tensor.bytes - range.offset)};
}

FileOp ToFile(std::size_t index, const Schedule& recorded) {
  const ScheduleOp& op = recorded.ops[index];
  FileOp result{.id = index,
                .name = op.name,
                .lane = op.lane,
                .seconds = op.seconds,
                .tier = FastestTier(op)};
  const bool costs = std::any_of(op.accesses.begin(), op.accesses.end(), [](const auto& access) {
    return access.recompute_seconds.has_value();
  });
  for (const ScheduleAccess& access : op.accesses) {
    const FileAccess part{access.tensor, Clip(recorded.tensors[access.tensor], access.range)};
    // A page whose content stays in part is read too: what is only in "writes" needs no old
    // content.
    if (access.mode != AccessMode::kOverwrite) result.reads.push_back(part);
    if (access.mode != AccessMode::kRead) {
      result.writes.push_back(part);
      if (costs) result.recompute_seconds.push_back(access.recompute_seconds);
    }
    if (access.tier != result.tier) result.exceptions.push_back({access.tensor, access.tier});
  }
  return result;
}

}  // namespace

absl::Status WriteRecorded(const std::string& name,
                           const Schedule& recorded,
                           const LineSink& sink) {
  const std::string source;
  SLUICE_RETURN_IF_ERROR(sink(HeaderLine({.name = name,
                                          .key = recorded.key,
                                          .source = source,
                                          .page_bytes = recorded.page_bytes,
                                          .ops = recorded.ops.size(),
                                          .tensors = recorded.tensors.size()})));
  const std::vector<bool> persistent = FindPersistent(recorded);
  std::vector<TensorFacts> tensors;
  for (std::size_t i = 0; i < recorded.tensors.size(); ++i) {
    const ScheduleTensor& tensor = recorded.tensors[i];
    tensors.push_back({i, tensor.bytes});
    SLUICE_RETURN_IF_ERROR(sink(TensorLine(ToFile(i, tensor, persistent[i]))));
  }
  for (std::size_t i = 0; i < recorded.ops.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(sink(OpLine(ToFile(i, recorded), {.tensors = tensors, .ops = {}})));
  }
  return absl::OkStatus();
}

}  // namespace sluice::sim
