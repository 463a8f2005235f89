#include "runtime/analysis/bounds/lanes.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sluice::analysis {
namespace {

using LaneNumber = std::uint32_t;
constexpr LaneNumber kNobody = UINT32_MAX;

/// Use of a segment by lanes.
struct SegmentUse {
  std::set<LaneNumber> writers;
  std::set<LaneNumber> discarders;
  bool written_above = false;
  LaneNumber first_above = kNobody;
};

LaneNumber OwnerOf(const SegmentUse& use) {
  if (use.writers.size() > 1) return kNobody;
  const bool writer_owns = use.written_above;
  const LaneNumber owner = writer_owns ? *use.writers.begin() : use.first_above;
  const bool others_write = !use.writers.empty() && *use.writers.begin() != owner;
  if (others_write && !use.discarders.empty()) return kNobody;
  for (const LaneNumber lane : use.discarders) {
    if (lane != owner) return kNobody;
  }
  return owner;
}

class LaneSplitter {
 public:
  LaneSplitter(const Schedule& schedule, TierKind lowest_above)
      : schedule_(schedule), lowest_above_(lowest_above) {
    for (const ScheduleOp& op : schedule.ops) {
      const LaneNumber lane = LaneOf(op.lane);
      for (const ScheduleAccess& access : op.accesses) NoteAccess(access, lane);
      for (const ScheduleAccess& discard : op.discards) {
        SegmentOf(discard).discarders.insert(lane);
      }
    }
  }

  std::vector<Schedule> Split() {
    std::vector<Schedule> result(lanes_.size());
    for (Schedule& lane : result) lane = {.key = schedule_.key, .page_bytes = schedule_.page_bytes};
    for (const ScheduleOp& op : schedule_.ops) {
      const LaneNumber lane = LaneOf(op.lane);
      result[lane].ops.push_back(SeenFrom(lane, op));
    }
    for (Schedule& lane : result) AddTensors(&lane);
    return result;
  }

 private:
  LaneNumber LaneOf(const std::string& name) {
    return lanes_.try_emplace(name, static_cast<LaneNumber>(lanes_.size())).first->second;
  }

  SegmentUse& SegmentOf(const ScheduleAccess& access) {
    return segments_[schedule_.tensors[access.tensor].segment];
  }

  void NoteAccess(const ScheduleAccess& access, LaneNumber lane) {
    SegmentUse& use = SegmentOf(access);
    const bool above = access.tier.kind <= lowest_above_;
    if (above && use.first_above == kNobody) use.first_above = lane;
    if (access.mode == AccessMode::kRead) return;
    use.writers.insert(lane);
    use.written_above |= above;
  }

  ScheduleOp SeenFrom(LaneNumber lane, const ScheduleOp& op) {
    ScheduleOp seen{.name = op.name, .lane = op.lane, .seconds = op.seconds};
    for (ScheduleAccess access : op.accesses) {
      if (OwnerOf(SegmentOf(access)) != lane) access.mode = AccessMode::kOverwrite;
      seen.accesses.push_back(access);
    }
    for (const ScheduleAccess& discard : op.discards) {
      if (OwnerOf(SegmentOf(discard)) == lane) seen.discards.push_back(discard);
    }
    return seen;
  }

  /// Adds the tensors that the lane names, so that many lanes together have hardly more than one
  /// lane.
  void AddTensors(Schedule* lane) const {
    std::map<std::uint32_t, std::uint32_t> places;
    const auto rename = [&](ScheduleAccess& access) {
      const auto next = static_cast<std::uint32_t>(places.size());
      const auto [place, fresh] = places.try_emplace(access.tensor, next);
      if (fresh) lane->tensors.push_back(schedule_.tensors[access.tensor]);
      access.tensor = place->second;
    };
    for (ScheduleOp& op : lane->ops) {
      for (ScheduleAccess& access : op.accesses) rename(access);
      for (ScheduleAccess& discard : op.discards) rename(discard);
    }
  }

  const Schedule& schedule_;
  const TierKind lowest_above_;
  std::map<std::string, LaneNumber> lanes_;
  std::map<std::uint32_t, SegmentUse> segments_;
};

}  // namespace

std::vector<Schedule> SplitLanes(const Schedule& schedule, TierKind lowest_above) {
  return LaneSplitter(schedule, lowest_above).Split();
}

}  // namespace sluice::analysis
