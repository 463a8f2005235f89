#include "runtime/sim/schedule_facts.h"

#include "base/status.h"
#include "runtime/sim/lifetimes.h"

namespace sluice::sim {
namespace {

void Raise(std::uint64_t bytes, std::size_t op, Peak* peak) {
  if (bytes > peak->bytes) *peak = {bytes, op};
}

void CountLive(const FileSchedule& schedule,
               const Extents& extents,
               const Lifetimes& lifetimes,
               ScheduleFacts* facts) {
  std::vector<std::uint64_t> born(schedule.ops.size(), 0);
  std::vector<std::uint64_t> dead(schedule.ops.size(), 0);
  for (std::uint32_t i = 0; i < extents.size(); ++i) {
    const Lifetimes::Life& life = lifetimes.extents[i];
    if (life.persistent) {
      facts->persistent_bytes += extents.bytes(i);
    } else if (life.first != Lifetimes::kNever) {
      born[life.first] += extents.bytes(i);
      dead[life.last] += extents.bytes(i);
    }
  }
  std::uint64_t live = facts->persistent_bytes;
  facts->live = {live, 0};
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    live += born[op];
    Raise(live, op, &facts->live);
    live -= dead[op];
  }
}

void CountWorkingSets(const Extents& extents, const OpVisits& visits, ScheduleFacts* facts) {
  for (std::size_t op = 0; op + 1 < visits.begin.size(); ++op) {
    std::uint64_t bytes = 0;
    for (const std::uint32_t extent : visits.Of(op)) bytes += extents.bytes(extent);
    Raise(bytes, op, &facts->working_set);
  }
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
  CountLive(schedule, extents, lifetimes, &facts);
  CountWorkingSets(extents, visits, &facts);
  CountKinds(schedule, &facts);
  CountOddities(schedule, lifetimes, &facts);
  facts.groups = GroupOps(schedule, extents);
  facts.reuses = MeasureReuse(extents, visits, lifetimes);
  return facts;
}

}  // namespace sluice::sim
