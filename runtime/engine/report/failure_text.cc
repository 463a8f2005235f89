#include "runtime/engine/report/failure_text.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::engine {
namespace {

std::string CauseText(const absl::Status& cause) {
  return cause.ok() ? std::string("cause unknown") : std::string(base::ToStd(cause.message()));
}

absl::Status TooLarge(const core::FailTicket& failure,
                      const internal::TicketState& ticket,
                      const TierSet& tiers,
                      core::FrameIndex budget) {
  const TierId tier = tiers.id(failure.tier);
  const core::FrameIndex kept = budget - failure.limit;
  const std::string less =
      fmt::format(" less {} for pages in transit, reservations and tensors that stay",
                  ToString(tiers.PagesToBytes(kept)));
  return absl::ResourceExhaustedError(fmt::format(
      "op '{}' needs {} in {} ({}), the budget of {}{} allows {}: raise tiers.{}.bytes to "
      "{} or split the op",
      ticket.op().identity().name,
      ToString(tiers.PagesToBytes(failure.pages)),
      ToString(tier),
      base::Counted(failure.pages, "page"),
      ToString(tiers.PagesToBytes(budget)),
      kept > 0 ? less : std::string(),
      ToString(tiers.PagesToBytes(failure.limit)),
      ToString(tier.kind),
      ExactSize(tiers.PagesToBytes(failure.pages + kept))));
}

/// "tensor 'w', bytes 4096 to 8191": the part of the page that the ticket asked for.
std::string RangeText(const internal::TicketState& ticket, PageIndex page, const TierSet& tiers) {
  for (const LeaseDraft& access : ticket.draft().accesses) {
    if (page < access.first_page || page >= access.first_page + access.pages) continue;
    const std::uint64_t page_bytes = tiers.page_bytes();
    const std::uint64_t before = (page - access.first_page) * page_bytes;
    const std::uint64_t begin =
        access.range.offset + (before > access.first_offset ? before - access.first_offset : 0);
    const std::uint64_t end =
        std::min(access.range.offset + access.range.bytes,
                 access.range.offset + before + page_bytes - access.first_offset);
    return fmt::format("tensor '{}', bytes {} to {}", access.tensor->spec.name, begin, end - 1);
  }
  return fmt::format("page {}", page);
}

absl::Status PageLost(const core::FailTicket& failure,
                      const internal::TicketState& ticket,
                      const TierSet& tiers,
                      const FaultLog& faults) {
  const PageFault fault = faults.OfPage(failure.page);
  // A fault without a tier is that of a file or a callback, not of a copy.
  const std::string what = fault.tier == core::kNoTier
                               ? std::string("the content")
                               : fmt::format("the only copy in {}", ToString(tiers.id(fault.tier)));
  return absl::DataLossError(fmt::format("op '{}': {}: {} is lost: {}",
                                         ticket.op().identity().name,
                                         RangeText(ticket, failure.page, tiers),
                                         what,
                                         CauseText(fault.cause)));
}

/// The page is where it was, but every attempt to bring it failed.
absl::Status NotBrought(const core::FailTicket& failure,
                        const internal::TicketState& ticket,
                        const TierSet& tiers,
                        const PageFault& fault) {
  const bool exhausted = absl::IsResourceExhausted(fault.cause);
  return absl::Status(
      exhausted ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      fmt::format("op '{}': {} cannot be brought to {} now: {}",
                  ticket.op().identity().name,
                  RangeText(ticket, failure.page, tiers),
                  ToString(tiers.id(fault.tier)),
                  CauseText(fault.cause)));
}

/// No tier refuses pages. If no page failed either, a policy of the program's own names no victim.
absl::Status NoRoom(const std::string& op, const std::string& tier, std::string_view policy) {
  const std::string why =
      policy.empty() ? std::string()
                     : fmt::format(": the policy '{}' names no page that may leave", policy);
  return absl::ResourceExhaustedError(
      fmt::format("op '{}': no room can be made in {}{}", op, tier, why));
}

/// The core names the tier that refuses pages, or else the one that has no room.
absl::Status TierFull(const core::FailTicket& failure,
                      const internal::TicketState& ticket,
                      const FailureFacts& facts) {
  const TierSet& tiers = facts.tiers;
  if (const PageFault fault = facts.faults.AttemptOf(failure.page); !fault.cause.ok()) {
    return NotBrought(failure, ticket, tiers, fault);
  }
  const auto tier = std::min<core::TierIndex>(failure.tier, tiers.size() - 1);
  const std::string& op = ticket.op().identity().name;
  const std::string name = ToString(tiers.id(tier));
  const absl::Status cause = facts.faults.OfTier(tier);
  if (cause.ok()) {
    return NoRoom(op, name, failure.page == core::kNoPage ? facts.custom_policy : "");
  }
  return absl::ResourceExhaustedError(fmt::format(
      "op '{}': no room can be made, because {} takes no pages: {}", op, name, CauseText(cause)));
}

}  // namespace

absl::Status TicketFailureStatus(const core::FailTicket& failure,
                                 const internal::TicketState& ticket,
                                 const FailureFacts& facts) {
  switch (failure.reason) {
    case core::TicketFailure::kTooLarge:
      return TooLarge(failure, ticket, facts.tiers, facts.budget);
    case core::TicketFailure::kWouldDeadlock:
      return absl::AbortedError(
          fmt::format("op '{}' would deadlock: what it needs, pages or room, is held by ops that "
                      "wait for it, or wait themselves; ask for all in one request, or give some "
                      "back first",
                      ticket.op().identity().name));
    case core::TicketFailure::kPageLost:
      return PageLost(failure, ticket, facts.tiers, facts.faults);
    case core::TicketFailure::kTierFull:
      return TierFull(failure, ticket, facts);
    case core::TicketFailure::kCancelled:
      return absl::CancelledError("the ticket was cancelled");
  }
  return absl::InternalError("an unknown failure");
}

std::string StallText(const LeaseStalledEvent& event) {
  return fmt::format(
      "op '{}' has waited {:.1f} s for tensor '{}' in {}: a lease of tensor '{}' that op '{}' took "
      "{:.1f} s ago {}; release it before anything waits for op '{}'",
      event.op,
      event.seconds,
      event.tensor,
      ToString(event.tier),
      event.held_tensor,
      event.held_by,
      event.held_seconds,
      event.tensor == event.held_tensor ? "excludes it" : "holds frames that it needs",
      event.op);
}

}  // namespace sluice::engine
