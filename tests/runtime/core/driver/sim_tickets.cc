#include "tests/runtime/core/driver/sim_tickets.h"

#include <algorithm>

#include "fmt/format.h"

namespace sluice::core {
namespace {

bool Contains(const Acquire& acquire, PageIndex page) {
  return std::any_of(acquire.requests.begin(), acquire.requests.end(), [page](const auto& request) {
    return request.page == page && request.mode != PageMode::kOverwrite;
  });
}

}  // namespace

void SimTickets::Request(const Acquire& acquire) {
  shadow_->Request(acquire);
  tickets_[acquire.ticket] = {.acquire = acquire};
  waiting_[acquire.op].insert(acquire.ticket);
  lanes_[acquire.op] = acquire.lane;
  if (acquire.nested) nested_.insert(acquire.op);
}

void SimTickets::NoteCancel(TicketNumber ticket) {
  const auto found = tickets_.find(ticket);
  if (found != tickets_.end()) found->second.cancelled = true;
}

void SimTickets::EndLeases(const Release& release) {
  const auto found = tickets_.find(release.ticket);
  if (found == tickets_.end() || !found->second.granted) return;
  SimTicket& ticket = found->second;
  for (const PageIndex page : release.pages) {
    for (std::size_t i = 0; i < ticket.frames.size(); ++i) {
      const PageRequest& request = ticket.acquire.requests[i];
      if (request.page != page || ticket.leases_left[i] == 0) continue;
      const bool last = shadow_->Release(release.ticket, page);
      --ticket.leases_left[i];
      if (request.mode != PageMode::kRead) {
        frames_->Write(request.tier, ticket.frames[i], shadow_->page(page).stamp);
      }
      if (last) frames_->Unpin(page, request.tier, ticket.frames[i]);
    }
  }
  const auto& left = ticket.leases_left;
  if (std::all_of(left.begin(), left.end(), [](std::uint32_t count) { return count == 0; })) {
    holding_[ticket.acquire.op].erase(release.ticket);
  }
}

void SimTickets::Grant(const GrantTicket& grant) {
  const auto found = tickets_.find(grant.ticket);
  if (found == tickets_.end() || !found->second.open()) {
    return verdict_->Fail(fmt::format("ticket {} is answered twice", grant.ticket));
  }
  SimTicket& ticket = found->second;
  const auto& requests = ticket.acquire.requests;
  if (grant.frames.size() != requests.size()) {
    return verdict_->Fail(fmt::format("ticket {} is granted in part", grant.ticket));
  }
  ticket.granted = true;
  ticket.frames = grant.frames;
  ++grants_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    frames_->Pin(requests[i], grant.frames[i]);
    if (!verdict_->ok()) return;
    shadow_->Grant(grant.ticket, requests[i]);
    ticket.leases_left.push_back(requests[i].leases);
    if (requests[i].mode == PageMode::kRead) continue;
    frames_->Write(requests[i].tier, grant.frames[i], shadow_->page(requests[i].page).stamp);
  }
  waiting_[ticket.acquire.op].erase(grant.ticket);
  if (!requests.empty()) holding_[ticket.acquire.op].insert(grant.ticket);
}

void SimTickets::Fail(const FailTicket& fail, std::uint64_t faults) {
  const auto found = tickets_.find(fail.ticket);
  if (found == tickets_.end() || !found->second.open()) {
    return verdict_->Fail(fmt::format("ticket {} is answered twice", fail.ticket));
  }
  SimTicket& ticket = found->second;
  CheckReason(fail, ticket, faults);
  ticket.failed = true;
  ++failures_[fail.reason];
  waiting_[ticket.acquire.op].erase(fail.ticket);
  for (const PageRequest& request : ticket.acquire.requests) {
    shadow_->Withdraw(fail.ticket, request.page);
  }
}

void SimTickets::CheckReason(const FailTicket& fail,
                             const SimTicket& ticket,
                             std::uint64_t faults) {
  switch (fail.reason) {
    case TicketFailure::kTooLarge:
      return CheckTooLarge(fail, ticket);
    case TicketFailure::kWouldDeadlock:
      return CheckDeadlock(fail);
    case TicketFailure::kPageLost:
      if (!Contains(ticket.acquire, fail.page) || !shadow_->page(fail.page).lost) {
        verdict_->Fail(fmt::format("ticket {} fails by page {}, not lost", fail.ticket, fail.page));
      }
      return;
    case TicketFailure::kTierFull:
      if (faults == 0) verdict_->Fail("a tier is called full though no task failed");
      return;
    case TicketFailure::kCancelled:
      if (!ticket.cancelled) verdict_->Fail("a ticket is called cancelled that was not");
      return;
  }
}

void SimTickets::CheckTooLarge(const FailTicket& fail, const SimTicket& ticket) {
  std::set<PageIndex> pages;
  for (const PageRequest& request : ticket.acquire.requests) {
    if (request.tier == fail.tier) pages.insert(request.page);
  }
  if (fail.pages <= fail.limit || fail.pages != pages.size()) {
    verdict_->Fail(fmt::format("ticket {} is called too large in tier {}: {} of {}, really {}",
                               fail.ticket,
                               fail.tier,
                               fail.pages,
                               fail.limit,
                               pages.size()));
  }
}

void SimTickets::CheckDeadlock(const FailTicket& fail) {
  for (const auto& [op, held] : holding_) {
    if (held.empty() || Waiting(op)) continue;
    verdict_->Fail(fmt::format(
        "ticket {} fails by deadlock though op {} holds and does not wait", fail.ticket, op));
  }
}

bool SimTickets::Waiting(OpNumber op) const {
  const LaneIndex lane = lanes_.at(op);
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& other) {
    const auto& [asking, tickets] = other;
    if (tickets.empty() || asking == op) return !tickets.empty();
    const bool nested = tickets_.at(*tickets.begin()).acquire.nested && nested_.contains(op);
    return lanes_.at(asking) == lane && (asking < op || nested);
  });
}

bool SimTickets::AnyRuns() const {
  return std::any_of(holding_.begin(), holding_.end(), [this](const auto& op) {
    return !op.second.empty() && !Waiting(op.first);
  });
}

void SimTickets::CheckAnswered() {
  for (const auto& [op, tickets] : waiting_) {
    if (tickets.empty()) continue;
    verdict_->Fail(fmt::format("ticket {} of op {} hangs", *tickets.begin(), op));
  }
}

std::set<PageIndex> SimTickets::PagesHeld(OpNumber op, TierIndex tier) const {
  std::set<PageIndex> pages;
  const auto found = holding_.find(op);
  if (found == holding_.end()) return pages;
  for (const TicketNumber number : found->second) {
    const SimTicket& ticket = tickets_.at(number);
    for (std::size_t i = 0; i < ticket.leases_left.size(); ++i) {
      const PageRequest& request = ticket.acquire.requests[i];
      if (request.tier == tier && ticket.leases_left[i] > 0) pages.insert(request.page);
    }
  }
  return pages;
}

std::uint64_t SimTickets::failure_count(TicketFailure reason) const {
  const auto found = failures_.find(reason);
  return found == failures_.end() ? 0 : found->second;
}

}  // namespace sluice::core
