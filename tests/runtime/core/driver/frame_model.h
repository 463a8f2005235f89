#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

/// Physical state of a frame.
struct SimFrame {
  PageIndex owner = kNoPage;
  bool reserved = false;
  bool abandoned = false;  ///< true if the content may soon be unreadable
  bool filling = false;    ///< a task writes it
  bool under_way = false;  ///< true once the task has reported that it is under way
  bool granted_under_way = false;
  bool written_under_way = false;  ///< a lease writes what follows the task's bytes
  bool mapping = false;            ///< a StartMap is in flight
  bool mapped = false;
  /// A task for this page failed here: the frame is free, and may still be dropped or tried again.
  PageIndex failed_for = kNoPage;
  std::uint32_t readers = 0;  ///< copies that read the frame
  std::uint32_t pins = 0;
  bool has_content = false;
  Stamp stamp = kZeros;
  /// Page, segment and generation that the content was written as.
  PageIndex content_page = kNoPage;
  SegmentIndex segment = 0;
  std::uint64_t generation = 0;
};

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
  void SetLimit(TierIndex tier, FrameIndex limit);
  FrameIndex limit(TierIndex tier) const { return limits_[tier]; }
  /// Checks that no page is left at or above the limit.
  void CheckVacated(TierIndex tier);
  void ForgetPages(PageIndex first_page, std::uint32_t pages);

  /// Notes that the content of these frames may soon be unreadable. Other frames hold it too,
  /// except for the `named` pages, and it stays here until it is elsewhere.
  void Abandon(const std::vector<FrameIndex>& frames, const std::vector<PageIndex>& named);
  /// Notes that a tier has refused pages. Abandoned frames are then as good as others, until the
  /// last tier takes a page.
  void NoteFence() { fence_ = true; }
  /// Checks after a batch of actions that no page lost its last copy, nor the last copy outside of
  /// abandoned frames.
  void EndBatch();
  /// Checks a report that the page is lost: a source of it was lost, and no frame holds its bytes.
  void CheckLost(PageIndex page);

  const std::map<TaskNumber, SimTask>& tasks() const { return tasks_; }
  const SimFrame& frame(TierIndex tier, FrameIndex frame) const { return tiers_[tier][frame]; }
  TierIndex tier_count() const { return static_cast<TierIndex>(tiers_.size()); }
  FrameIndex used(TierIndex tier) const;
  std::uint64_t copies_started() const { return copies_started_; }

 private:
  using TierFrame = std::pair<TierIndex, FrameIndex>;

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
  bool HoldsContent(TierFrame place) const;
  bool Reachable(PageIndex page) const;
  bool OnlyAbandoned(PageIndex page) const;
  SimFrame& At(TierIndex tier, FrameIndex frame) { return tiers_[tier][frame]; }
  void SetOwner(TierIndex tier, FrameIndex frame, PageIndex page);

  const std::uint32_t copies_in_flight_max_;
  const ShadowModel* shadow_;
  Verdict* verdict_;
  std::vector<std::vector<SimFrame>> tiers_;
  std::vector<FrameIndex> limits_;
  std::vector<FrameIndex> used_;
  std::map<TaskNumber, SimTask> tasks_;
  TaskNumber last_task_ = 0;
  bool any_task_ = false;
  std::uint64_t copies_started_ = 0;
  /// The frames that each page owns.
  absl::flat_hash_map<PageIndex, std::set<TierFrame>> places_;
  /// The bytes that each generation of a page stands for.
  absl::flat_hash_map<PageIndex, std::map<std::uint64_t, Stamp>> generations_;
  std::set<PageIndex> touched_;
  std::set<PageIndex> named_;
  bool fence_ = false;
  /// Pages of which a task could not read the bytes.
  std::set<PageIndex> doubtful_;
};

}  // namespace sluice::core
