#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "tests/runtime/core/driver/random_blocks.h"
#include "tests/runtime/core/driver/random_choices.h"
#include "tests/runtime/core/driver/random_faults.h"
#include "tests/runtime/core/driver/scenario.h"
#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

/// Simulated threads that run ops against a VirtualDriver: acquire, hold, sometimes acquire more
/// while holding, release in parts, sometimes cancel; beside them somebody discards, frees,
/// creates, prefetches, plans, reserves and changes budgets.
class RandomWorkload {
 public:
  explicit RandomWorkload(const Scenario& scenario);

  /// Runs the program, lets everything end, reads every page, and replays. The result is
  /// driver().verdict().
  void Run();
  VirtualDriver& driver() { return driver_; }
  /// Whether the program is over, and only its remains are being finished.
  bool winding_down() const { return winding_down_; }

 private:
  enum class State : std::uint8_t { kIdle, kWaiting, kHolding, kStopped };

  struct OpPlan {
    NameIndex name = 0;
    std::vector<PageRequest> requests;
    bool discard = false;  ///< the pages die with the op
  };

  /// An op that is asked for while the one before it waits or runs.
  struct AskedAhead {
    OpNumber op = 0;
    OpPlan plan;
    TicketNumber ticket = 0;
    bool granted = false;
  };

  struct Worker {
    State state = State::kIdle;
    OpNumber op = 0;
    bool nests = false;  ///< true if ops may run within the worker's op
    std::uint32_t next_step = 0;
    OpPlan plan;
    std::vector<TicketNumber> held;
    TicketNumber waiting = 0;
    std::optional<AskedAhead> ahead;
  };

  OpPlan RandomOp(bool permanent);
  bool Fits(const std::vector<PageRequest>& requests);
  void MakeScripts();

  void OnTimer(std::uint64_t id);
  void Advance(std::uint32_t worker);
  void StartOp(std::uint32_t worker);
  bool NextPlan(Worker* worker, std::uint32_t lane);
  void Hold(std::uint32_t worker);
  void AcquireFor(std::uint32_t worker, const OpPlan& plan, bool within = false);
  TicketNumber Ask(std::uint32_t lane, OpNumber op, const OpPlan& plan, bool nested = false);
  void AskAhead(std::uint32_t worker);
  void TakeUpAhead(std::uint32_t worker);
  void OnGranted(TicketNumber ticket);
  void ReleaseSome(std::uint32_t worker);
  void ReleaseTicket(TicketNumber ticket, bool all);
  void EndOp(std::uint32_t worker);
  void BeginNextIteration();
  void Disturb();
  void Prefetch();
  void DiscardOne();
  void ReserveOne();
  void ChangeBudget();
  void AbandonSome();
  void AdoptSome();
  std::shared_ptr<const Plan> RandomPlan(KeyIndex key);
  void Misuse();

  void TakeAnswers();
  void OnFailed(const FailTicket& fail);

  void WindDown();
  void ReadEverything();

  Scenario scenario_;
  RandomChoices random_;
  VirtualDriver driver_;
  RandomBlocks blocks_{&scenario_, &random_, &driver_};
  RandomFaults faults_{&scenario_, &random_, &driver_};
  std::vector<Worker> workers_;
  /// scripts_[key][lane]
  std::vector<std::vector<std::vector<OpPlan>>> scripts_;
  std::vector<std::shared_ptr<const Plan>> plans_;  ///< made so far
  KeyIndex key_ = 0;
  bool in_iteration_ = false;
  bool winding_down_ = false;
  TicketNumber next_ticket_ = 1;
  OpNumber next_op_ = 1;
  ReservationNumber next_reservation_ = 1;
  std::vector<ReservationNumber> reservations_;
  bool reservation_pending_ = false;
  bool budget_pending_ = false;
};

}  // namespace sluice::core
