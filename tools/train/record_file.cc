#include "tools/train/record_file.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

bool IsWhole(const ScheduleTensor& tensor, ByteRange range) {
  return range.offset == 0 && range.bytes >= tensor.bytes;
}

/// A tensor that is discarded as a whole after its last use lives within the iteration; any other
/// exists from one to the next.
std::vector<bool> FindPersistent(const Schedule& schedule) {
  std::vector<bool> persistent(schedule.tensors.size(), true);
  for (const ScheduleOp& op : schedule.ops) {
    for (const ScheduleAccess& access : op.accesses) persistent[access.tensor] = true;
    for (const ScheduleAccess& discard : op.discards) {
      if (IsWhole(schedule.tensors[discard.tensor], discard.range)) {
        persistent[discard.tensor] = false;
      }
    }
  }
  return persistent;
}

/// An id, or [id, first byte, bytes] for a part.
Json Element(const Schedule& schedule, const ScheduleAccess& access) {
  const ScheduleTensor& tensor = schedule.tensors[access.tensor];
  if (IsWhole(tensor, access.range)) return access.tensor;
  const std::uint64_t bytes = std::min(access.range.bytes, tensor.bytes - access.range.offset);
  return Json::array({access.tensor, access.range.offset, bytes});
}

Json TensorLine(std::size_t index, const ScheduleTensor& tensor, bool persistent) {
  return {{"tensor", index},
          {"bytes", tensor.bytes},
          {"persistent", persistent},
          {"name", tensor.name},
          {"kind", ToString(tensor.kind)},
          {"segment", tensor.segment},
          {"home", "store"}};
}

/// The fastest tier that the op uses; hbm for an op without tensors.
TierKind FastestTier(const ScheduleOp& op) {
  TierKind fastest = op.accesses.empty() ? TierKind::kHbm : TierKind::kNvme;
  for (const ScheduleAccess& access : op.accesses) fastest = std::min(fastest, access.tier.kind);
  return fastest;
}

/// Tensors that must be in another tier than the op's own, by id.
Json OtherTiers(const ScheduleOp& op, TierKind own) {
  Json others = Json::object();
  for (const ScheduleAccess& access : op.accesses) {
    if (access.tier.kind == own) continue;
    others[std::to_string(access.tensor)] = ToString(access.tier.kind);
  }
  return others;
}

Json OpLine(const Schedule& schedule, std::size_t index) {
  const ScheduleOp& op = schedule.ops[index];
  Json reads = Json::array();
  Json writes = Json::array();
  for (const ScheduleAccess& access : op.accesses) {
    // A page whose content stays in part is read too: what is only in "writes" needs no old
    // content.
    if (access.mode != AccessMode::kOverwrite) reads.push_back(Element(schedule, access));
    if (access.mode != AccessMode::kRead) writes.push_back(Element(schedule, access));
  }
  Json line = {{"op", index}, {"name", op.name}, {"seconds", op.seconds}};
  if (op.lane != "gpu") line["lane"] = op.lane;
  const TierKind tier = FastestTier(op);
  if (tier != TierKind::kHbm) line["tier"] = ToString(tier);
  Json others = OtherTiers(op, tier);
  if (!others.empty()) line["tiers"] = std::move(others);
  line["reads"] = std::move(reads);
  line["writes"] = std::move(writes);
  return line;
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::Status WriteSchedule(const std::string& name,
                           const Schedule& schedule,
                           const LineSink& sink) {
  SLUICE_RETURN_IF_ERROR(sink(Line({{"schedule", name},
                                    {"version", 1},
                                    {"key", schedule.key},
                                    {"ops", schedule.ops.size()},
                                    {"tensors", schedule.tensors.size()},
                                    {"page_bytes", schedule.page_bytes}})));
  const std::vector<bool> persistent = FindPersistent(schedule);
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(sink(Line(TensorLine(i, schedule.tensors[i], persistent[i]))));
  }
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(sink(Line(OpLine(schedule, i))));
  }
  return absl::OkStatus();
}

absl::Status AppendSchedule(const std::string& name, const Schedule& schedule, AtomicFile* file) {
  return WriteSchedule(
      name, schedule, [file](std::string_view line) { return file->Append(line); });
}

}  // namespace sluice::tools
