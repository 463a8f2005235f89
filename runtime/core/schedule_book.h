#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/events.h"
#include "runtime/core/types.h"
#include "sluice/policy.h"

namespace sluice::core {

/// The next recorded use of a page.
struct NextUse {
  Position position = kNever;
  TierIndex tier = kNoTier;
  PageMode mode = PageMode::kRead;
  bool map = false;
};

/// Records the steps (AcquireAlls) of every iteration by key, and follows a recorded iteration as
/// it repeats. Positions count steps across iterations; the plan wraps from one iteration of a key
/// to the next of the same key.
class ScheduleBook {
 public:
  /// Starts an iteration of `key`. True when positions handed out before no longer hold (the key or
  /// the length is not what was expected), so that every next use must be asked for again.
  bool Begin(KeyIndex key);
  /// Keeps the recording when it is the key's first or differs from what was expected.
  void End();

  /// One step of the running iteration, recorded and compared with the schedule. True when it is
  /// the step that was expected; false without a schedule, after a divergence, outside iterations.
  bool Advance(const Acquire& acquire);

  /// Whether a schedule is being followed.
  bool following() const { return followed_ != nullptr && !diverged_; }
  std::uint64_t divergences() const { return divergences_; }
  /// The position after the last step.
  Position now() const { return base_ + now_; }

  /// The first use of `page` at or after `position`. REQUIRES: following().
  NextUse NextUseFrom(PageIndex page, Position position) const;
  /// The requests of the step at `position` >= the iteration's base. REQUIRES: following().
  std::span<const PageRequest> StepAt(Position position) const;
  /// How many pages come into `tier` or a faster one for the steps in [`from`, `to`): those that no
  /// step shortly before has used. REQUIRES: following(), `from` >= the iteration's base.
  std::uint64_t EntriesBetween(TierIndex tier, Position from, Position to) const;
  /// Steps of the followed schedule.
  Position length() const { return followed_ == nullptr ? 0 : followed_->steps.size(); }
  bool empty() const { return followed_ == nullptr || followed_->steps.empty(); }

 private:
  struct Step {
    LaneIndex lane = 0;
    NameIndex name = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct Use {
    std::uint32_t step = 0;
    std::uint32_t request = 0;
  };
  struct Recording {
    std::vector<Step> steps;
    std::vector<PageRequest> requests;
    std::map<LaneIndex, std::vector<std::uint32_t>> lanes;
    /// Uses of page p: uses[first_use[p] .. first_use[p + 1]), in order.
    std::vector<std::uint32_t> first_use;
    std::vector<Use> uses;
    /// Pages that come into each tier or a faster one in the steps before each, and at last in all.
    std::vector<std::array<std::uint64_t, kTiersMax>> entries;
  };

  static void Index(Recording* recording);
  static void IndexEntries(Recording* recording);
  static bool Same(const Recording& recording, const Step& step, const Acquire& acquire);
  static NextUse Describe(const Recording& recording, const Use& use, Position base);

  std::map<KeyIndex, Recording> schedules_;
  const Recording* followed_ = nullptr;
  Recording recording_;
  std::map<LaneIndex, std::uint32_t> lane_next_;
  KeyIndex key_ = 0;
  bool running_ = false;
  bool diverged_ = false;
  Position base_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t divergences_ = 0;
};

}  // namespace sluice::core
