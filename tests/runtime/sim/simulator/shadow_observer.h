#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/sim/simulator/sim_observer.h"
#include "tests/runtime/core/driver/frame_model.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::sim {

/// Carries out the core's decisions on frames with bytes of their own: copies at the end of each
/// task, new bytes at each write lease. Checks every source of a copy and every granted page
/// against the last write. verdict() holds the first violation.
class ShadowObserver final : public SimObserver {
 public:
  /// Pages whose copy was started, by link and direction.
  using PagesMoved = std::vector<std::array<std::uint64_t, 2>>;

  ShadowObserver(core::TierIndex tiers, std::uint32_t copies_in_flight_max)
      : tiers_(tiers), copies_max_(copies_in_flight_max), moving_(tiers - 1u) {}

  void OnStart(const core::Core& core) override;
  void OnEvent(const core::Event& event, double seconds) override;
  void OnAction(const core::Action& action, double seconds) override;
  void OnEventDone() override;

  /// Whether the copy's source may be lost. No other reader of the frame may exist, who would have
  /// to see the loss too.
  bool MayLoseSource(const core::StartCopy& copy) const;

  const core::Verdict& verdict() const { return verdict_; }
  /// The verdict, and the last events and actions.
  std::string Report() const;
  /// Pages moved up to the end of each iteration.
  const std::vector<PagesMoved>& moved() const { return moved_; }
  std::uint64_t grants() const { return grants_; }
  std::uint64_t pages_lost() const { return lost_; }
  std::uint64_t failures(core::TicketFailure reason) const;

 private:
  struct Ticket {
    core::Acquire acquire;
    std::vector<core::FrameIndex> frames;
  };

  /// An event or action, for the report.
  struct Line {
    double seconds = 0;
    std::variant<core::Event, core::Action> what;
  };

  void Before(const core::Event& event);
  void Carry(const core::Action& action);
  void Release(const core::Release& release);
  void Grant(const core::GrantTicket& grant);
  void Fail(const core::FailTicket& fail);
  void Freed(const core::PagesFreed& freed);
  void Count(core::TierIndex source, core::TierIndex target);
  void CheckCounters();
  void Remember(Line line);

  const core::TierIndex tiers_;
  const std::uint32_t copies_max_;
  const core::Core* core_ = nullptr;
  core::Verdict verdict_;
  core::ShadowModel shadow_{&verdict_};
  std::optional<core::FrameModel> frames_;
  std::map<core::TicketNumber, Ticket> tickets_;
  std::map<core::SegmentIndex, core::CreateSegment> creating_;
  std::map<core::TicketFailure, std::uint64_t> failures_;
  PagesMoved moving_;
  std::vector<PagesMoved> moved_;
  bool between_ = false;       ///< true between two iterations
  std::vector<Line> history_;  ///< last lines, in a ring
  std::uint64_t lines_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t grants_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t faults_ = 0;
};

}  // namespace sluice::sim
