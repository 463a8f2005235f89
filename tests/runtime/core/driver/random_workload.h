#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/core/plan/plan.h"
#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

/// Choices of a seed.
struct Scenario {
  DriverOptions driver;
  std::uint32_t threads = 1;
  std::uint32_t op_pages_max = 3;
  std::uint32_t pages = 24;
  std::uint64_t events = 2000;
  /// Whether ops repeat in iterations under keys. If not, every op is random.
  bool iterations = false;
  /// Whether threads ask for their next op before they wait for the current one.
  bool ask_ahead = false;
  /// Whether reservations and budget changes happen.
  bool budgets = false;
  /// Whether segments are created and freed.
  bool segments = false;
  /// Whether the last tier has no frames, or too few for all pages. The other pages stay above it.
  bool mixed = false;
  /// Whether plans come, at any time.
  bool plans = false;
  /// Failures among 1000 tasks.
  std::uint32_t faults_per_mille = 0;
  /// Whether all tasks into a tier fail for a while, once one has failed for want of space.
  bool long_faults = false;
};

/// Limits of a seed's choices.
struct ScenarioSizes {
  std::uint32_t op_pages_least = 1;
  std::uint32_t op_pages_most = 5;
  std::uint32_t pages_least = 6;
  std::uint32_t pages_most = 40;
  std::uint32_t copies_in_flight_most = 6;
};

Scenario RandomScenario(std::uint64_t seed, const ScenarioSizes& sizes = {});
/// A random scenario with a last tier that does not hold all pages.
Scenario MixedScenario(std::uint64_t seed);
std::string ToString(const Scenario& scenario);

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
    std::uint32_t next_step = 0;
    OpPlan plan;
    std::vector<TicketNumber> held;
    TicketNumber waiting = 0;
    std::optional<AskedAhead> ahead;
  };

  struct Block {
    SegmentIndex segment = 0;
    PageIndex first_page = 0;
    std::uint32_t pages = 0;
    TierIndex lowest = 0;
    bool permanent = false;
    bool read_only = false;
  };

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool Chance(std::uint32_t per_mille) { return Below(1000) < per_mille; }

  void CreateBlocks();
  bool CreateBlock(std::uint32_t pages, TierIndex lowest, bool permanent);
  PageIndex FindRoom(std::uint32_t pages) const;
  std::optional<PageRequest> RandomRequest(bool permanent);
  OpPlan RandomOp(bool permanent);
  bool Fits(const std::vector<PageRequest>& requests);
  void MakeScripts();

  void OnTimer(std::uint64_t id);
  void Advance(std::uint32_t worker);
  void StartOp(std::uint32_t worker);
  bool NextPlan(Worker* worker, std::uint32_t lane);
  void Hold(std::uint32_t worker);
  void AcquireFor(std::uint32_t worker, const OpPlan& plan);
  TicketNumber Ask(std::uint32_t lane, OpNumber op, const OpPlan& plan);
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
  void FreeOne();
  void ReserveOne();
  void ChangeBudget();
  void AbandonSome();
  void AdoptSome();
  std::shared_ptr<const Plan> RandomPlan(KeyIndex key);
  void Misuse();

  void TakeAnswers();
  void OnFailed(const FailTicket& fail);
  std::optional<FailureKind> Fault(const SimTask& task);
  bool MayLoseSource(const SimTask& task) const;

  void WindDown();
  void ReadEverything();

  Scenario scenario_;
  std::mt19937_64 random_;
  VirtualDriver driver_;
  std::vector<Worker> workers_;
  std::vector<Block> blocks_;
  /// scripts_[key][lane]
  std::vector<std::vector<std::vector<OpPlan>>> scripts_;
  std::vector<std::shared_ptr<const Plan>> plans_;  ///< made so far
  KeyIndex key_ = 0;
  bool in_iteration_ = false;
  bool winding_down_ = false;
  std::uint64_t full_until_ = 0;
  TierIndex full_tier_ = kNoTier;
  SegmentIndex next_segment_ = 1;
  TicketNumber next_ticket_ = 1;
  OpNumber next_op_ = 1;
  ReservationNumber next_reservation_ = 1;
  std::vector<ReservationNumber> reservations_;
  bool reservation_pending_ = false;
  bool budget_pending_ = false;
};

}  // namespace sluice::core
