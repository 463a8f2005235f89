#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/core/events.h"
#include "runtime/core/plan/plan.h"
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
/// to the next of the same key. The book's memory is bounded: newer schedules replace the least
/// recently used ones. An iteration that alone is too long is not kept.
class ScheduleBook {
 public:
  explicit ScheduleBook(const ScheduleLimits& limits) : limits_(limits) {}

  /// Starts an iteration of `key`. Returns true if the key or the length is not the expected one.
  /// Positions handed out before then no longer hold, and every next use must be asked for again.
  bool Begin(KeyIndex key);
  /// Ends the iteration. Keeps the recording when it is the key's first, or differs from the
  /// expected one.
  void End();

  /// Records one step of the running iteration, and compares it with the schedule. Returns true if
  /// the step is the expected one. Returns false without a schedule, after a divergence, and
  /// outside iterations.
  bool Advance(const Acquire& acquire);

  /// Notes that the content of `page` is dead after the last step so far.
  void NoteDeath(PageIndex page);

  /// Recording of `key`: pages that are used alike, and the lane and name of every step. Empty
  /// without a recording.
  std::vector<PlanItem> Items(KeyIndex key) const;
  std::vector<RecordedStep> Steps(KeyIndex key) const;

  /// Whether a recording of `key` is kept.
  bool Has(KeyIndex key) const { return schedules_.contains(key); }
  /// Fingerprint that tells recordings apart; 0 without a recording.
  std::uint64_t FingerprintOf(KeyIndex key) const;

  /// Whether an iteration has begun and not ended.
  bool running() const { return running_; }
  /// Whether an iteration of `key` has begun and not ended.
  bool Running(KeyIndex key) const { return running_ && key_ == key; }
  /// Whether a schedule is being followed.
  bool following() const { return followed_ != nullptr && !diverged_; }
  std::uint64_t divergences() const { return divergences_; }
  /// Number of schedules that were dropped for newer ones, and of iterations too long to record.
  std::uint64_t dropped() const { return dropped_; }
  std::uint64_t too_long() const { return too_long_; }
  /// The position at which the schedule has the step that Advance was told last.
  Position last() const { return base_ + last_; }
  /// The position after the last step.
  Position now() const { return base_ + now_; }
  /// The position of the first step of the running iteration.
  Position base() const { return base_; }

  /// The first use of `page` at or after `position`. REQUIRES: following().
  NextUse NextUseFrom(PageIndex page, Position position) const;
  /// The requests of the step at `position` >= the iteration's base. REQUIRES: following().
  std::span<const PageRequest> StepAt(Position position) const;
  /// Number of pages that come into `tier` or a faster one for the steps in [`from`, `to`): pages
  /// that no step shortly before has used. REQUIRES: following(), `from` >= the iteration's base.
  std::uint64_t EntriesBetween(TierIndex tier, Position from, Position to) const;
  /// Number of steps of the followed schedule.
  Position length() const { return followed_ == nullptr ? 0 : followed_->steps.size(); }
  bool empty() const { return followed_ == nullptr || followed_->steps.empty(); }

 private:
  struct RecordedOp {
    LaneIndex lane = 0;
    NameIndex name = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  struct RecordedUse {
    std::uint32_t step = 0;
    std::uint32_t request = 0;
    bool dies = false;
  };
  /// A page whose content is dead after the step before `step`.
  struct Death {
    PageIndex page = 0;
    std::uint32_t step = 0;
  };
  struct Recording {
    std::vector<RecordedOp> steps;
    std::vector<PageRequest> requests;
    std::vector<Death> deaths;
    std::uint64_t last_used = 0;  ///< mark of the last use; a larger one is more recent
    std::uint64_t fingerprint = 0;
    std::map<LaneIndex, std::vector<std::uint32_t>> lanes;
    /// Uses of page p: uses[first_use[p] .. first_use[p + 1]), in order.
    std::vector<std::uint32_t> first_use;
    std::vector<RecordedUse> uses;
    /// Pages that come into each tier or a faster one in the steps before each step; the last entry
    /// counts all steps.
    std::vector<std::array<std::uint64_t, kTiersMax>> entries;
  };

  static std::uint64_t SizeOf(const Recording& recording);
  bool HasRoom(std::uint64_t more);
  void Record(const Acquire& acquire);
  void Keep();
  void DropOthers();
  static void Index(Recording* recording);
  static std::uint64_t Fingerprint(const Recording& recording);
  static void IndexDeaths(Recording* recording);
  static void IndexEntries(Recording* recording);
  static std::vector<PlanUse> UsesOf(const Recording& recording, PageIndex page);
  static bool Same(const Recording& recording, const RecordedOp& step, const Acquire& acquire);
  static NextUse Describe(const Recording& recording, const RecordedUse& use, Position base);

  const ScheduleLimits limits_;
  std::map<KeyIndex, Recording> schedules_;
  std::uint64_t size_ = 0;  ///< size of all schedules
  std::uint64_t used_ = 0;  ///< mark of the schedule that was used last
  const Recording* followed_ = nullptr;
  Recording recording_;
  std::map<LaneIndex, std::uint32_t> lane_next_;
  KeyIndex key_ = 0;
  bool running_ = false;
  bool diverged_ = false;
  bool given_up_ = false;  ///< the running iteration is not recorded any more
  Position base_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t divergences_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t too_long_ = 0;
};

}  // namespace sluice::core
