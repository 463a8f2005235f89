#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/core/core.h"
#include "tests/runtime/core/driver/frame_model.h"
#include "tests/runtime/core/driver/open_requests.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/sim_tickets.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

struct DriverOptions {
  std::vector<FrameIndex> frames = {4, 16, 64};
  std::string policy = "min";
  const std::map<std::string, CustomPolicy>* custom_policies = nullptr;
  /// Log of the policy's calls, in words; null: no log.
  std::vector<std::string>* policy_log = nullptr;
  std::uint32_t copies_in_flight_max = 4;
  std::uint32_t transit_frames = 2;
  TierIndex capacity_from = 1;
  bool keeps_mappings = false;  ///< true: the fastest tier keeps mappings
  /// Whether tasks into the fastest tier report that they are under way.
  bool under_way = false;
  std::uint32_t prefetch_ops = 0;
  double clean_share = 0;
  ScheduleLimits schedules;
  std::uint64_t seed = 1;
  std::uint64_t latency_max = 100;
  /// Time within which tasks that end after the earliest are reported with it; 0: each alone.
  std::uint64_t together = 0;
  /// Events, or batches reported together, per run of Core::CheckInvariants.
  std::uint32_t events_per_check = 1;
};

CoreOptions CoreOptionsOf(const DriverOptions& options);

/// Next event in virtual time: a task ended or reported that it is under way, or a timer of the
/// user went off.
struct Moment {
  bool is_timer = false;
  bool under_way = false;
  std::uint64_t id = 0;
};

/// Decides at the end of a task whether it fails.
using FaultFunction = std::function<std::optional<FailureKind>(TaskNumber, const SimTask&)>;

/// Drives a Core in virtual time. Tasks end after seeded random latencies, in any order. The driver
/// carries out every action literally on simulated frames, and checks it against the invariants and
/// a shadow model. verdict() holds the first violation, after which the core gets no more events.
class VirtualDriver {
 public:
  explicit VirtualDriver(const DriverOptions& options);

  /// Sends an event. Returns the actions that follow, which are carried out already.
  std::vector<Action> Send(const Event& event);
  std::vector<Action> Done(TaskNumber task) { return Send(TaskDone{task}); }
  std::vector<Action> Failed(TaskNumber task, FailureKind kind) {
    return Send(TaskFailed{task, kind});
  }
  /// Ends the earliest task and those that end with it, or returns the earliest timer; none if
  /// there is neither.
  std::optional<Moment> Step();
  void SetTimer(std::uint64_t delay, std::uint64_t id);
  /// Ends tasks (not timers) until none is in flight. Returns all actions.
  std::vector<Action> Drain();
  void set_fault(FaultFunction fault) { fault_ = std::move(fault); }

  /// Checks that nothing waits that could go on: see core_property_test.cc. REQUIRES: no task in
  /// flight.
  void CheckProgress();
  /// Checks that the same events give the same actions (I7).
  void CheckReplay();

  /// Answers in order of arrival, for the user to take.
  std::deque<Action>& answers() { return answers_; }
  const std::map<TicketNumber, SimTicket>& tickets() const { return tickets_.all(); }
  const SimTicket& ticket(TicketNumber ticket) const { return tickets_.all().at(ticket); }
  std::set<PageIndex> PagesHeld(OpNumber op, TierIndex tier) const {
    return tickets_.PagesHeld(op, tier);
  }
  /// Whether the op waits for a ticket, or for an earlier op of its lane that does.
  bool Waiting(OpNumber op) const { return tickets_.Waiting(op); }

  Core& core() { return *core_; }
  const ShadowModel& shadow() const { return shadow_; }
  const FrameModel& frames() const { return frames_; }
  Verdict& verdict() { return verdict_; }
  std::uint64_t now() const { return now_; }
  std::uint64_t event_count() const { return events_.size(); }
  /// Number of times that several events were sent together.
  std::uint64_t together_count() const { return together_; }
  std::uint64_t fault_count() const { return faults_; }
  std::uint64_t grant_count() const { return tickets_.grant_count(); }
  /// Failures of `reason` so far.
  std::uint64_t failure_count(TicketFailure reason) const { return tickets_.failure_count(reason); }
  /// The verdict with the last events and their actions.
  std::string Report() const;

 private:
  struct Entry {
    std::uint64_t time;
    std::uint64_t order;
    Moment moment;
    bool operator>(const Entry& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  /// Sends events that come together.
  std::vector<Action> Send(const std::vector<Event>& events);
  void Before(const Event& event);
  void Carry(const Action& action);
  void CheckCounters();
  void CheckBatch();
  std::string EventText(std::size_t event) const;
  void Queue(TaskNumber task);
  /// Event that reports the end of a task; none if the test ended it by hand.
  std::optional<Event> EndOf(TaskNumber task) const;
  /// Takes the next task out of the queue, if it ends at `latest` or before.
  std::optional<TaskNumber> TakeTask(std::uint64_t latest);

  DriverOptions options_;
  Verdict verdict_;
  std::unique_ptr<Core> core_;
  ShadowModel shadow_;
  FrameModel frames_;
  SimTickets tickets_;
  OpenRequests requests_;
  std::mt19937_64 random_;
  FaultFunction fault_;
  std::uint64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t together_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::deque<Action> answers_;
  std::vector<Event> events_;
  std::vector<std::size_t> batch_ends_;       ///< ends in events_ of the batches that were sent
  std::vector<std::vector<Action>> actions_;  ///< actions that followed each batch
};

/// The actions of one type, in order.
template <typename T>
std::vector<T> Select(const std::vector<Action>& actions) {
  std::vector<T> selected;
  for (const Action& action : actions) {
    if (const T* one = std::get_if<T>(&action)) selected.push_back(*one);
  }
  return selected;
}

}  // namespace sluice::core
