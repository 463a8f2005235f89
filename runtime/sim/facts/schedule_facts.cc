#include "runtime/sim/facts/schedule_facts.h"

#include <algorithm>

#include "base/status.h"
#include "runtime/sim/facts/group_facts.h"
#include "runtime/sim/schedule/lifetimes.h"

namespace sluice::sim {
namespace {

using BytesByOp = std::vector<std::uint64_t>;

Peak PeakOf(const BytesByOp& bytes) {
  const auto most = std::max_element(bytes.begin(), bytes.end());
  if (most == bytes.end()) return {};
  return {*most, static_cast<std::size_t>(most - bytes.begin())};
}

/// Bytes with content while each op runs. Persistent bytes also count alone.
BytesByOp CountLive(const FileSchedule& schedule,
                    const Extents& extents,
                    const Lifetimes& lifetimes,
                    std::uint64_t* persistent_bytes) {
  BytesByOp born(schedule.ops.size(), 0);
  BytesByOp dead(schedule.ops.size(), 0);
  for (std::uint32_t i = 0; i < extents.size(); ++i) {
    const Lifetimes::Life& life = lifetimes.extents[i];
    if (life.persistent) {
      *persistent_bytes += extents.bytes(i);
    } else if (life.first != Lifetimes::kNever) {
      born[life.first] += extents.bytes(i);
      dead[life.last] += extents.bytes(i);
    }
  }
  BytesByOp live(schedule.ops.size(), 0);
  std::uint64_t now = *persistent_bytes;
  for (std::size_t op = 0; op < live.size(); ++op) {
    now += born[op];
    live[op] = now;
    now -= dead[op];
  }
  return live;
}

BytesByOp CountWorkingSets(const Extents& extents, const OpVisits& visits) {
  BytesByOp bytes(visits.begin.size() - 1, 0);
  for (std::size_t op = 0; op < bytes.size(); ++op) {
    for (const std::uint32_t extent : visits.Of(op)) bytes[op] += extents.bytes(extent);
  }
  return bytes;
}

void CountKinds(const FileSchedule& schedule, ScheduleFacts* facts) {
  for (const FileTensor& tensor : schedule.tensors) {
    KindFacts& kind = facts->kinds[static_cast<std::size_t>(tensor.kind)];
    ++kind.tensors;
    kind.bytes += tensor.bytes;
    if (tensor.persistent) kind.persistent_bytes += tensor.bytes;
  }
}

void CountOddities(const FileSchedule& schedule, const Lifetimes& lifetimes, ScheduleFacts* facts) {
  for (const Lifetimes::Life& life : lifetimes.tensors) {
    facts->untouched += life.first == Lifetimes::kNever ? 1 : 0;
  }
  std::vector<bool> has_content(schedule.tensors.size());
  for (std::size_t i = 0; i < has_content.size(); ++i) {
    has_content[i] = schedule.tensors[i].persistent;
  }
  for (const FileOp& op : schedule.ops) {
    for (const FileAccess& access : op.reads) {
      facts->unwritten += has_content[access.tensor] ? 0 : 1;
      has_content[access.tensor] = true;
    }
    for (const FileAccess& access : op.writes) has_content[access.tensor] = true;
  }
}

}  // namespace

absl::StatusOr<ScheduleFacts> FindFacts(const FileSchedule& schedule,
                                        const ExtentOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const Extents extents, Extents::Create(schedule, options));
  const OpVisits visits = CollectVisits(schedule, extents);
  const Lifetimes lifetimes = FindLifetimes(schedule, extents);
  ScheduleFacts facts;
  const BytesByOp live = CountLive(schedule, extents, lifetimes, &facts.persistent_bytes);
  const BytesByOp working_sets = CountWorkingSets(extents, visits);
  facts.live = PeakOf(live);
  facts.working_set = PeakOf(working_sets);
  CountKinds(schedule, &facts);
  CountOddities(schedule, lifetimes, &facts);
  facts.groups = GroupOps(schedule, extents);
  facts.reuses = MeasureReuse(extents, visits, lifetimes);
  AddGroupFacts(live, working_sets, facts.reuses, &facts.groups.by_name);
  AddGroupFacts(live, working_sets, facts.reuses, &facts.groups.by_lane);
  return facts;
}

}  // namespace sluice::sim
