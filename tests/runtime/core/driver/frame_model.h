#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "tests/runtime/core/driver/last_copies.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/sim_frames.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

struct SimTask {
  std::variant<StartCopy, StartFill, StartMap> action;
  PageIndex page = kNoPage;
  TierIndex target = kNoTier;
  FrameIndex target_frame = kNoFrame;
  bool hastened = false;
  Stamp stamp = kZeros;  ///< stamp of the bytes under way
  bool garbage = false;  ///< nothing readable is under way

  const StartCopy* copy() const { return std::get_if<StartCopy>(&action); }
  const StartFill* fill() const { return std::get_if<StartFill>(&action); }
};

/// The frames of all tiers, and the tasks that change them, carried out literally. Every order is
/// held against the invariants and against the shadow model.
class FrameModel {
 public:
  FrameModel(const std::vector<FrameIndex>& frames,
             std::uint32_t copies_in_flight_max,
             const ShadowModel* shadow,
             Verdict* verdict);

  void Start(const StartCopy& copy);
  void Start(const StartFill& fill);
  void Hasten(const HastenCopy& order);
  void Start(const StartMap& map);
  void UnderWay(TaskNumber task);
  void Drop(const DropFrame& drop);
  void Done(TaskNumber task);
  void Failed(TaskNumber task, FailureKind kind);

  /// Checks the frame of a lease that begins: it holds the page's bytes, and is mapped if that was
  /// asked.
  void Pin(const PageRequest& request, FrameIndex frame);
  void Unpin(PageIndex page, TierIndex tier, FrameIndex frame);
  /// The holder of a write lease writes.
  void Write(TierIndex tier, FrameIndex frame, Stamp stamp);

  void Reserve(TierIndex tier, const std::vector<FrameIndex>& frames);
  void Unreserve(TierIndex tier, const std::vector<FrameIndex>& frames);
  /// Forbids frames at or above `limit` from now on.
  void SetLimit(TierIndex tier, FrameIndex limit) { frames_.SetLimit(tier, limit); }
  FrameIndex limit(TierIndex tier) const { return frames_.limit(tier); }
  /// Checks that no page is left at or above the limit.
  void CheckVacated(TierIndex tier);
  void ForgetPages(PageIndex first_page, std::uint32_t pages);

  /// Notes that the content of these frames may soon be unreadable. Other frames hold it too,
  /// except for the `named` pages, and it stays here until it is elsewhere.
  void Abandon(const std::vector<FrameIndex>& frames, const std::vector<PageIndex>& named);
  /// Notes that a tier has refused pages.
  void NoteFence() { copies_.NoteFence(); }
  /// Checks after a batch of actions that no page lost its last copy, nor the last copy outside of
  /// abandoned frames.
  void EndBatch() { copies_.CheckDrops(); }
  /// Checks a report that the page is lost.
  void CheckLost(PageIndex page) { copies_.CheckLost(page); }

  const std::map<TaskNumber, SimTask>& tasks() const { return tasks_; }
  const SimFrame& frame(TierIndex tier, FrameIndex frame) const { return frames_.At(tier, frame); }
  TierIndex tier_count() const { return frames_.tier_count(); }
  FrameIndex used(TierIndex tier) const { return frames_.used(tier); }
  std::uint64_t copies_started() const { return copies_started_; }

 private:
  bool Check(bool condition, const std::string& what);
  bool CheckFrame(PageIndex page, TierIndex tier, FrameIndex frame);
  void CheckSource(const StartCopy& copy);
  void CheckTarget(PageIndex page, TierIndex tier, FrameIndex frame);
  void CheckLinkLoad(const StartCopy& copy);
  void CheckGeneration(const StartCopy& copy, Stamp stamp);
  void StartTask(TaskNumber number, SimTask task);
  void TakeTarget(const SimTask& task);
  void FinishTarget(const SimTask& task, bool map);
  bool TakeTask(TaskNumber number, SimTask* task);
  Stamp FillStamp(const StartFill& fill);

  const std::uint32_t copies_in_flight_max_;
  const ShadowModel* shadow_;
  Verdict* verdict_;
  SimFrames frames_;
  LastCopies copies_;
  std::map<TaskNumber, SimTask> tasks_;
  TaskNumber last_task_ = 0;
  bool any_task_ = false;
  std::uint64_t copies_started_ = 0;
  /// The bytes that each generation of a page stands for.
  absl::flat_hash_map<PageIndex, std::map<std::uint64_t, Stamp>> generations_;
};

}  // namespace sluice::core
