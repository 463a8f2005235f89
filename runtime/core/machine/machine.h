#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/core.h"
#include "runtime/core/machine/budgets.h"
#include "runtime/core/machine/capacity.h"
#include "runtime/core/machine/discards.h"
#include "runtime/core/machine/invariants.h"
#include "runtime/core/machine/need_pass.h"
#include "runtime/core/machine/pump.h"
#include "runtime/core/machine/stuck_tickets.h"
#include "runtime/core/machine/tickets.h"
#include "runtime/core/machine/wait_causes.h"
#include "runtime/core/paging/copies.h"
#include "runtime/core/paging/eviction.h"
#include "runtime/core/paging/facts.h"
#include "runtime/core/paging/fences.h"
#include "runtime/core/paging/frames.h"
#include "runtime/core/paging/hastening.h"
#include "runtime/core/paging/movement.h"
#include "runtime/core/paging/task_ends.h"
#include "runtime/core/paging/victims.h"
#include "runtime/core/plan/fixed_pages.h"
#include "runtime/core/plan/plan_follower.h"
#include "runtime/core/schedule/goals.h"
#include "runtime/core/schedule/lookahead.h"
#include "runtime/core/schedule/schedule_book.h"
#include "runtime/core/state/page.h"
#include "runtime/core/state/tier_state.h"

namespace sluice::core {

/// The residency state machine: the state that its parts share, and the parts. A part has data of
/// its own that are not a tier's or a page's; some have none. Parts reach each other through it.
/// core.cc names the part that handles each event. Threads: externally synchronised.
struct ResidencyMachine {
  explicit ResidencyMachine(const CoreOptions& core_options);
  ResidencyMachine(const ResidencyMachine&) = delete;
  ResidencyMachine& operator=(const ResidencyMachine&) = delete;

  Page& page(PageIndex index) { return pages[index]; }
  const Page& page(PageIndex index) const { return pages[index]; }
  LinkLoad& link(TierIndex a, TierIndex b) { return links[a < b ? a : b]; }
  const LinkLoad& link(TierIndex a, TierIndex b) const { return links[a < b ? a : b]; }
  TierIndex last_tier() const { return static_cast<TierIndex>(tiers.size() - 1); }
  /// The tier that pages with a file or a callback are restored to.
  TierIndex file_tier() const { return static_cast<TierIndex>(tiers.size() - 2); }
  void Emit(Action action) {
    ++changes;
    actions->push_back(std::move(action));
  }

  const CoreOptions options;
  const bool online;  ///< true if the policy is not to know the schedule
  std::vector<TierState> tiers;
  std::vector<LinkLoad> links;
  std::vector<Page> pages;
  absl::flat_hash_map<TaskNumber, Task> tasks;  ///< tasks in flight
  std::uint32_t refills_in_flight = 0;  ///< tasks that restore pages from files or callbacks
  absl::flat_hash_map<TicketNumber, std::unique_ptr<Ticket>> live_tickets;
  std::vector<Ticket*> pending;  ///< acquires not granted, in order of arrival
  absl::flat_hash_map<OpNumber, Holder> holders;
  std::uint64_t next_arrival = 1;
  std::vector<PageIndex> transits;  ///< pages that wait in a transit frame to go on
  std::vector<PageIndex> holding;   ///< pages with a held frame, in the order of taking
  ScheduleBook book;
  CoreCounters counters;
  std::uint32_t pinned_pages = 0;
  bool pump_again = false;  ///< true if the pump is to have another round
  /// Count of the changes that may change a policy's victim: rounds of the pump, actions, facts,
  /// needs that are met.
  std::uint64_t changes = 1;
  std::uint64_t tasks_since_progress = 0;
  std::vector<Action>* actions = nullptr;  ///< answer to the events that are being handled

  Facts facts{*this};
  Frames frames{*this};
  Movement movement{*this};
  TaskEnds task_ends{*this};
  Fences fences{*this};
  Victims victims{*this};
  Eviction eviction{*this};
  Hastening hastening{*this};
  Copies copies{*this};
  Tickets tickets{*this};
  Discards discards{*this};
  NeedPass need_pass{*this};
  Pump pump{*this};
  StuckTickets stuck_tickets{*this};
  Budgets budgets{*this};
  Capacity capacity{*this};
  WaitCauses wait_causes{*this};
  Invariants invariants{*this};
  FixedPages fixed_pages{*this};
  PlanFollower plan_follower{*this};
  Goals goals;
  Lookahead lookahead{*this};
};

}  // namespace sluice::core
