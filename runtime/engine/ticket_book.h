#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/core/events.h"
#include "runtime/engine/messages.h"
#include "runtime/engine/ticket_state.h"

namespace sluice::engine {

/// Tickets that the core knows: those that wait, and those with leases out. Threads: the core
/// thread only.
class TicketBook {
 public:
  struct Entry {
    std::shared_ptr<internal::TicketState> ticket;
    bool granted = false;
    core::WaitFor waits_for = core::WaitFor::kRead;  ///< as the ticket was told
    std::vector<bool> released;                      ///< per access
    std::uint32_t leases_left = 0;
  };

  void Add(std::shared_ptr<internal::TicketState> ticket);
  /// Null when the ticket has ended.
  Entry* Find(core::TicketNumber number);
  void Erase(core::TicketNumber number) { entries_.erase(number); }

  /// Adds the pages of one lease that ends; forgets the ticket with its last one. Nothing when the
  /// lease or its ticket has ended before.
  void Release(const ReleaseNotice& notice, std::vector<PageIndex>* pages);
  /// The event for the end of all leases that are left; forgets the ticket.
  core::Release ReleaseAll(core::TicketNumber number);

  /// Calls `visit(entry)` for every ticket, in order of number.
  template <typename Visit>
  void ForEach(Visit visit) const;
  void Clear() { entries_.clear(); }

 private:
  static void AppendPages(const AccessPlan& access, std::vector<PageIndex>* pages);

  std::unordered_map<core::TicketNumber, Entry> entries_;
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
