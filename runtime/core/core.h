#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/actions.h"
#include "runtime/core/copy_place.h"
#include "runtime/core/events.h"
#include "runtime/core/plan/plan.h"
#include "runtime/core/policies/paging_policy.h"
#include "runtime/core/types.h"
#include "runtime/core/waits.h"

namespace sluice::core {

struct TierConfig {
  FrameIndex frames = 0;
  /// Whether the address of a page that has left stays mapped to the frame, whichever page takes
  /// the frame. So a page that finds its frame again needs no mapping, and each page has a home.
  bool keeps_mappings = false;
};

struct CoreOptions {
  /// Tiers, fastest first, at least two. Links join neighbours: link i is between tiers i and i +
  /// 1. The last of three or more tiers may have no frames.
  std::vector<TierConfig> tiers;
  /// The fastest tier whose frames count as capacity for pages that may go to the last tier: the
  /// one above the last counts from here on.
  TierIndex capacity_from = 1;
  std::shared_ptr<PagingPolicy> policy;
  /// Limit of the tasks in flight per link and direction.
  std::uint32_t copies_in_flight_max = 16;
  /// Frames per direction that every middle tier keeps out of residency (invariant I9).
  std::uint32_t transit_frames = 2;
  /// Recorded ops ahead of the current one whose pages are fetched; 0: demand paging only.
  std::uint32_t prefetch_ops = 12;
  /// Share of a tier that is kept free or free to leave, at least, by writing pages ahead of need.
  double clean_share = 1.0 / 8;
  /// Objective of the plans that are made and followed. Without a plan the core acts as for kTime.
  Objective objective = Objective::kTime;
  ScheduleLimits schedules;
};

/// Counters, from the core's creation on.
struct CoreCounters {
  /// Pages fetched ahead of need. A page counts once, however many hops it takes and wherever it
  /// rests between them: issued = hit + late + revoked + wasted + open.
  std::uint64_t prefetch_issued = 0;
  std::uint64_t prefetch_open = 0;  ///< pages on the way, or there and not used yet
  std::uint64_t prefetch_hit = 0;
  std::uint64_t prefetch_late = 0;
  std::uint64_t prefetch_revoked = 0;
  std::uint64_t prefetch_wasted = 0;
  std::uint64_t prefetch_waiting = 0;  ///< pages wanted now that are not on the way yet
  std::uint64_t dropped_clean = 0;
  std::uint64_t dropped_dead = 0;
  std::uint64_t written_demand = 0;
  std::uint64_t written_ahead = 0;
  std::uint64_t cleaned = 0;
  std::uint64_t divergences = 0;
  std::uint64_t schedules_dropped = 0;
  std::uint64_t iterations_too_long = 0;
  std::uint64_t pages_lost = 0;
};

/// Pages that came to a tier that keeps mappings and were wanted at their address there.
struct MappingCounters {
  std::uint64_t first = 0;     ///< pages whose address was mapped for the first time
  std::uint64_t again = 0;     ///< pages whose address was mapped before
  std::uint64_t in_place = 0;  ///< pages of these whose address was still mapped to the right frame
};

struct TierCounters {
  FrameIndex frames = 0;
  FrameIndex used = 0;
  FrameIndex used_peak = 0;
  std::array<std::uint32_t, kTensorKindCount> by_kind{};
  std::uint64_t committed = 0;  ///< pages that never go below this tier, wherever they are now
  std::uint32_t reserved = 0;   ///< frames of reservations
  FrameIndex transit = 0;       ///< frames that are kept for pages in transit
  MappingCounters mappings;
};

/// The residency state machine: events in, actions out. It owns no thread, clock, file or device
/// and is deterministic: the same options and events give the same actions (I7). Threads:
/// externally synchronised.
class Core {
 public:
  /// Makes a core. Errors: InvalidArgument (fewer than two tiers, a middle tier without room for
  /// its transit frames, no policy, limits of 0).
  static absl::StatusOr<std::unique_ptr<Core>> Create(const CoreOptions& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Takes one event and appends the actions that follow from it to `actions`.
  void Handle(const Event& event, std::vector<Action>* actions);
  /// Takes several events that came together. The core looks at waiting tickets once, when it has
  /// taken all.
  void Handle(std::span<const Event> events, std::vector<Action>* actions);

  /// Recording of `key`, for MakePlan: items, steps and frames. The driver adds the times. Empty
  /// without a recording.
  PlanInput RecordedPlan(KeyIndex key) const;
  std::vector<RecordedStep> RecordedSteps(KeyIndex key) const;
  /// PlanInput::recording of `key`, at less cost than RecordedPlan; 0 without a recording.
  std::uint64_t RecordingOf(KeyIndex key) const;
  /// Whether a plan of `key` is kept. A plan goes when the key's recording goes.
  bool HasPlan(KeyIndex key) const;

  const CoreCounters& counters() const;
  TierCounters tier(TierIndex tier) const;
  /// Frames of `tier` that one op's pages can fill at most.
  FrameIndex op_frames_max(TierIndex tier) const;
  /// Pages per tier that no plan moves: those that leases have held since before the iteration that
  /// has ended last began, and written ones that may reach no lower tier.
  PagesByTier CountFixedPages() const;
  /// Number of tasks started and not reported.
  std::uint32_t tasks_in_flight() const;
  /// Number of leases granted and not released.
  std::uint32_t pinned_pages() const;
  /// Pages whose only content is in one of these frames of the last tier, and cannot be made again.
  /// They are in the order of the frames.
  std::vector<PageIndex> PagesOnlyIn(const std::vector<FrameIndex>& frames) const;
  /// Place of the current bytes of a page: `first` if they are there, else the next tier below it
  /// that has them, else the next above it.
  NewestCopy FindNewest(PageIndex page, TierIndex first) const;
  /// Causes that the first ticket of each lane waits for. That ticket is granted before the others
  /// of its lane.
  /// - kWrite: no frame is free for one of its pages until a page-out in flight has ended, or a
  ///   page that the ticket is to write is still being copied down.
  /// - kRead: anything else.
  /// O(tickets that wait).
  void Waits(std::vector<TicketWait>* waits) const;
  /// Stops the program when an invariant of ARCHITECTURE.md does not hold; O(pages).
  void CheckInvariants() const;

 private:
  class Impl;
  explicit Core(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct PolicyOptions {
  std::uint64_t random_seed = 1;  ///< seed of the policy "random"
  /// A program's own policies by name; null: it has none. Must outlive the call.
  const std::map<std::string, CustomPolicy>* custom = nullptr;
};

/// The names that CreatePolicy knows; docs/policies.md describes each.
std::vector<std::string> PolicyNames();

/// Makes a policy. Errors: InvalidArgument (an unknown name: lists the known ones; a custom policy
/// with the name of another one, or without a policy to make).
absl::StatusOr<std::shared_ptr<PagingPolicy>> CreatePolicy(std::string_view name,
                                                           const PolicyOptions& options = {});

}  // namespace sluice::core
