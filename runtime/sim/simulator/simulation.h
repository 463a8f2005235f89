#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/core/core.h"
#include "runtime/sim/simulator/sim_clock.h"
#include "runtime/sim/simulator/sim_meter.h"
#include "runtime/sim/simulator/simulator.h"

namespace sluice::sim {

/// A schedule on its way through the core. The simulation asks for pages that ops need, in virtual
/// time, and carries out the core's decisions. It is used once.
class Simulation {
 public:
  /// Both arguments outlive the object.
  Simulation(const PageLayout& layout, const SimOptions& options);
  absl::StatusOr<SimReport> Run();

 private:
  /// An op of the running iteration.
  struct RunningOp {
    double ready_s = 0;  ///< time at which everything before the op had ended
    double begin_s = 0;
    std::uint32_t waits = 0;  ///< number of ops before this one that have not ended
    bool has_turn = false;    ///< true if everything before the op has ended
    bool asked = false;
    bool granted = false;  ///< true if the op holds its pages
    bool failed = false;
    bool ended = false;
    std::vector<PageIndex> pages;  ///< pages that the op has asked for
  };

  /// A run of the running iteration.
  struct RunState {
    std::uint32_t ops_left = 0;  ///< number of ops that still touch the run
    bool created = false;
  };

  std::uint64_t PagesIn(std::size_t tier) const;
  core::CoreOptions CoreOptionsOf() const;
  std::uint64_t RoomFor(const core::CoreOptions& core) const;

  absl::Status CreatePersistent();
  absl::Status RunIteration();
  void AdoptPlan();
  absl::Status GoOn();
  void EndTask(core::TaskNumber task);

  void LinkOps();
  void TakeTurn(std::uint32_t op);
  bool MayAskFor(std::uint32_t op) const;
  void WantIfMay(std::uint32_t op);
  void AskForOps();
  bool HasRoom(std::uint32_t op) const;
  void AskFor(std::uint32_t op);
  void StartOp(std::uint32_t op);
  void EndOp(std::uint32_t op);
  void FinishOp(std::uint32_t op);
  void CreateRun(std::uint32_t run);

  core::TicketNumber TicketOf(std::uint32_t op) const {
    return iteration_ * layout_.ops.size() + op + 1;
  }
  std::uint32_t OpOf(core::TicketNumber ticket) const {
    return static_cast<std::uint32_t>((ticket - 1) % layout_.ops.size());
  }

  void Feed(core::Event event) { events_.push_back(std::move(event)); }
  absl::Status HandleAll();
  void TakeBatch();
  void Handle(std::span<const core::Event> events);
  void On(const core::StartCopy& action);
  void On(const core::StartFill& action);
  void On(const core::StartMap& action) { Feed(core::TaskDone{action.task}); }
  void On(const core::GrantTicket& action);
  void On(const core::FailTicket& action);
  void On(const core::DropFrame& action);
  void On(const core::PagesFreed& action);
  void On(const core::SegmentRefused& action);
  template <typename Other>
  void On(const Other&) {}

  const PageLayout& layout_;
  const SimOptions& options_;
  std::unique_ptr<core::Core> core_;
  SimClock clock_;
  SimMeter meter_;
  const bool works_in_last_;  ///< true if an op has pages in the machine's last tier
  absl::Status status_;
  std::deque<core::Event> events_;
  std::vector<core::Event> batch_;  ///< events that the core takes together
  std::vector<core::Action> actions_;
  /// Copies under way, where they may fail.
  absl::flat_hash_map<core::TaskNumber, core::StartCopy> copies_;

  /// Ops that wait for each op, and the number of ops that each waits for.
  std::vector<std::vector<std::uint32_t>> followers_;
  std::vector<std::uint32_t> waits_;
  std::vector<std::optional<std::uint32_t>> before_in_lane_;
  /// Ops to ask for, by lane and place. At most room is missing for them.
  std::set<std::pair<std::uint32_t, std::uint32_t>> wanted_;
  std::vector<RunningOp> ops_;
  std::vector<RunState> runs_;
  absl::flat_hash_set<PageIndex> freeing_;  ///< first pages of runs
  std::uint64_t pages_alive_ = 0;           ///< number of pages alive, those being freed included
  std::uint64_t room_ = 0;                  ///< number of pages that fit
  std::uint64_t iteration_ = 0;
  std::size_t ops_to_end_ = 0;
};

}  // namespace sluice::sim
