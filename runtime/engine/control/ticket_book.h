#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/core/events.h"
#include "runtime/engine/control/messages.h"
#include "runtime/engine/control/ticket_state.h"

namespace sluice::engine {

/// Tickets that the core knows: those that wait, and those with leases out. Threads: the core
/// thread only.
class TicketBook {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    std::shared_ptr<internal::TicketState> ticket;
    bool granted = false;
    core::WaitFor waits_for = core::WaitFor::kRead;  ///< cause that the ticket was told
    std::vector<bool> released;                      ///< flag per access
    std::uint32_t leases_left = 0;
    Clock::time_point since{};    ///< time of the request; after the grant, time of the grant
    bool stall_reported = false;  ///< true once TakeStalled has returned the ticket
  };
  /// A ticket that has waited for long, and a lease in its way.
  struct Stall {
    const Entry* waits = nullptr;
    const LeaseDraft* wanted = nullptr;
    const Entry* holds = nullptr;
    const LeaseDraft* held = nullptr;
    bool same_page = false;  ///< false: the lease holds frames of the wanted tier
  };

  void Add(std::shared_ptr<internal::TicketState> ticket, Clock::time_point now);
  void Grant(Entry* entry, Clock::time_point now);
  /// Whether a ticket waits and TakeStalled has not returned it.
  bool AnyWaits() const { return waiting_ > 0; }
  /// Tickets that have waited for more than `limit` while a lease is in their way, each once.
  /// `idle`: no transfer is under way, so that a lease of any page of the tier is in their way.
  std::vector<Stall> TakeStalled(Clock::time_point now, Clock::duration limit, bool idle);
  /// Returns null when the ticket has ended.
  Entry* Find(core::TicketNumber number);
  void Erase(core::TicketNumber number);

  /// Tells the tickets for which Core::Waits names another cause than before.
  void TellWaits(const core::Core& core);

  /// Adds the pages of one lease that ends, and forgets the ticket with its last lease. Adds
  /// nothing when the lease or its ticket has ended before.
  void Release(const ReleaseNotice& notice, std::vector<PageIndex>* pages);
  /// Forgets the ticket, and returns the event that ends all its leases.
  core::Release ReleaseAll(core::TicketNumber number);

  /// Calls `visit(entry)` for every ticket, in order of number.
  template <typename Visit>
  void ForEach(Visit visit) const;
  void Clear() {
    entries_.clear();
    waiting_ = 0;
  }

 private:
  static void AppendPages(const LeaseDraft& access, std::vector<PageIndex>* pages);

  /// The first granted lease of those that `wanted` waits for.
  Stall HolderOf(const LeaseDraft& wanted, bool same_page) const;

  std::unordered_map<core::TicketNumber, Entry> entries_;
  std::vector<core::TicketWait> waits_;  ///< scratch of TellWaits, kept for its memory
  std::size_t waiting_ = 0;              ///< number of entries neither granted nor reported
};

template <typename Visit>
void TicketBook::ForEach(Visit visit) const {
  std::vector<core::TicketNumber> numbers;
  numbers.reserve(entries_.size());
  for (const auto& [number, entry] : entries_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  for (const core::TicketNumber number : numbers) visit(entries_.at(number));
}

}  // namespace sluice::engine
