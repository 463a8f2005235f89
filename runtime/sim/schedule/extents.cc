#include "runtime/sim/schedule/extents.h"

#include <algorithm>
#include <map>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::sim {
namespace {

template <typename Function>
void ForEachAccess(const FileSchedule& schedule, const Function& function) {
  for (const FileOp& op : schedule.ops) {
    for (const FileAccess& access : op.reads) function(access);
    for (const FileAccess& access : op.writes) function(access);
  }
}

FileAccess Whole(const FileSchedule& schedule, std::size_t tensor) {
  return {static_cast<std::uint32_t>(tensor), {0, schedule.tensors[tensor].bytes}};
}

absl::Status TooManyVisits(std::uint64_t visits, std::uint64_t visits_max) {
  return absl::ResourceExhaustedError(fmt::format(
      "the ops touch {} pieces of tensors, and at most {} can be looked at; count in larger pages",
      visits,
      visits_max));
}

}  // namespace

Extents::Extents(const FileSchedule& schedule, std::uint64_t page_bytes) : page_bytes_(page_bytes) {
  std::map<std::uint64_t, std::uint32_t> spaces;
  std::uint32_t next = 0;
  for (const FileTensor& tensor : schedule.tensors) {
    if (!tensor.segment.has_value()) {
      places_.push_back({next++, 0});
      continue;
    }
    const auto [space, added] = spaces.try_emplace(*tensor.segment, next);
    next += added ? 1 : 0;
    places_.push_back({space->second, tensor.segment_offset});
  }
}

void Extents::AddCuts(const FileAccess& access) {
  const SpaceOffset place = places_[access.tensor];
  const std::uint64_t begin = place.offset + access.range.offset;
  const std::uint64_t end = begin + access.range.bytes;
  const std::uint64_t pages = (end + page_bytes_ - 1) / page_bytes_;
  cuts_.push_back({place.space, begin / page_bytes_ * page_bytes_});
  cuts_.push_back({place.space, pages * page_bytes_});
}

void Extents::MakeExtents() {
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  bytes_.resize(cuts_.size(), 0);
  for (std::size_t i = 0; i + 1 < cuts_.size(); ++i) {
    if (cuts_[i].space == cuts_[i + 1].space) bytes_[i] = cuts_[i + 1].offset - cuts_[i].offset;
  }
}

Extents::Range Extents::OfAccess(const FileAccess& access) const {
  const SpaceOffset place = places_[access.tensor];
  const std::uint64_t begin = place.offset + access.range.offset;
  const std::uint64_t end = begin + access.range.bytes;
  const auto index = [&](std::uint64_t offset) {
    const auto found =
        std::lower_bound(cuts_.begin(), cuts_.end(), SpaceOffset{place.space, offset});
    return static_cast<std::uint32_t>(found - cuts_.begin());
  };
  return {index(begin / page_bytes_ * page_bytes_), index(end)};
}

absl::Status Extents::CountVisits(const FileSchedule& schedule, std::uint64_t visits_max) const {
  std::uint64_t visits = 0;
  for (const Range range : tensors_) visits += range.last - range.first;
  ForEachAccess(schedule, [&](const FileAccess& access) {
    const Range range = OfAccess(access);
    visits += range.last - range.first;
  });
  return visits <= visits_max ? absl::OkStatus() : TooManyVisits(visits, visits_max);
}

absl::StatusOr<Extents> Extents::Create(const FileSchedule& schedule,
                                        const ExtentOptions& options) {
  std::uint64_t accesses = schedule.tensors.size();
  ForEachAccess(schedule, [&](const FileAccess&) { ++accesses; });
  // An access touches at least one extent, so this limit bounds the cuts too.
  if (accesses > options.visits_max) return TooManyVisits(accesses, options.visits_max);
  Extents extents(schedule, options.page_bytes);
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) extents.AddCuts(Whole(schedule, i));
  ForEachAccess(schedule, [&](const FileAccess& access) { extents.AddCuts(access); });
  extents.MakeExtents();
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    extents.tensors_.push_back(extents.OfAccess(Whole(schedule, i)));
  }
  SLUICE_RETURN_IF_ERROR(extents.CountVisits(schedule, options.visits_max));
  return extents;
}

OpVisits CollectVisits(const FileSchedule& schedule, const Extents& extents) {
  OpVisits visits;
  std::vector<std::size_t> last_op(extents.size(), 0);
  for (std::size_t op = 0; op < schedule.ops.size(); ++op) {
    visits.begin.push_back(visits.extents.size());
    for (const auto* accesses : {&schedule.ops[op].reads, &schedule.ops[op].writes}) {
      for (const FileAccess& access : *accesses) {
        const Extents::Range range = extents.OfAccess(access);
        for (std::uint32_t i = range.first; i < range.last; ++i) {
          if (last_op[i] == op + 1) continue;
          last_op[i] = op + 1;
          visits.extents.push_back(i);
        }
      }
    }
  }
  visits.begin.push_back(visits.extents.size());
  return visits;
}

}  // namespace sluice::sim
