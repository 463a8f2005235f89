#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/engine/control/mailbox.h"
#include "runtime/engine/control/step_clock.h"
#include "runtime/engine/data/link_meter.h"
#include "runtime/engine/data/serial_executor.h"
#include "sluice/stats.h"

namespace sluice::engine {

/// Schedule, times, budgets and links that a plan is made for.
struct PlanBasis {
  std::uint64_t recording = 0;
  double seconds = 0;  ///< seconds of an iteration that waits for no pages
  double lead_seconds = 0;
  std::vector<core::FrameIndex> frames;
  core::PagesByTier fixed{};  ///< pages per tier that no plan moves
  std::vector<core::PlanLink> links;
};

/// Whether a plan made for `was` no longer fits: another schedule, other budgets, or a time or a
/// count of fixed pages that has changed by more than its limit below.
bool HasDrifted(const PlanBasis& was, const PlanBasis& is);
inline constexpr double kSecondsDrift = 1.15;
inline constexpr double kFixedDrift = 0.01;  ///< share of a tier's frames
inline constexpr double kLinkDrift = 1.3;
inline constexpr double kLeadDrift = 3;

/// Lead of page-ins over just in time: a multiple of the jitter between iterations, within these
/// shares of an iteration.
inline constexpr double kJittersAhead = 2;
inline constexpr double kLeadShareMin = 0.01;
inline constexpr double kLeadShareMax = 0.1;

/// Function that makes a plan; it returns none when it was told to stop.
using PlanMaker = std::function<std::optional<core::Plan>(const core::PlanInput& input,
                                                          const core::PlanStop& stop)>;

/// Plans every key's iteration from the first complete one on. It plans again when the times, the
/// links or the fixed pages have drifted, or the core has dropped the plan. A single iteration that
/// differs from those around it in time or fixed pages is no drift. The planner has a thread of its
/// own, so that neither the core nor the program waits.
///
/// Threads: the core thread only, but for the destructor, which is called when that thread has
/// returned. The destructor gives up a plan that is being made.
class BackgroundPlanner {
 public:
  struct Parts {
    LinkMeters* meters = nullptr;
    std::size_t links = 0;
    std::uint64_t page_bytes = 0;
    std::uint32_t pages_under_way = 0;  ///< PlanInput::pages_under_way
    Mailbox* mailbox = nullptr;
    std::uint64_t steps_max = UINT64_MAX;  ///< longer iterations are not planned
    PlanMaker make = core::TryMakePlan;
    std::function<StepClock::TimePoint()> now = std::chrono::steady_clock::now;
  };
  explicit BackgroundPlanner(Parts parts);
  ~BackgroundPlanner() { stop_ = true; }
  BackgroundPlanner(const BackgroundPlanner&) = delete;
  BackgroundPlanner& operator=(const BackgroundPlanner&) = delete;

  /// Errors: ResourceExhausted (the thread cannot be started).
  absl::Status Start(const std::vector<int>& cpus);
  /// Notes an event that the core was told, and its answer.
  void Observe(const core::Core& core,
               const core::Event& event,
               std::span<const core::Action> actions);
  /// Notes a plan that was made.
  void Note(const PlanNotice& notice);
  const PlanStats& stats() const { return stats_; }

 private:
  /// Basis and times of one key.
  struct Known {
    PlanBasis basis;       ///< basis of the last plan
    IterationTimes last;   ///< iteration that counts
    bool outlier = false;  ///< true if the iteration since then differed and did not count
  };

  static bool IsOutlier(const Known& known, const PlanBasis& is);

  void PlanFor(const core::Core& core,
               const IterationTimes& as_asked,
               std::vector<core::PlanLink> links);
  double LeadFor(const IterationTimes& times) const;
  void MakeInBackground(core::KeyIndex key, core::PlanInput input);

  const Parts parts_;
  StepClock clock_;
  std::map<core::KeyIndex, Known> known_;
  bool planning_ = false;
  PlanStats stats_;
  std::atomic<bool> stop_ = false;
  SerialExecutor thread_;  ///< destroyed first: its jobs use the other members
};

}  // namespace sluice::engine
