#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/fault_log.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Facts that the text of a failure draws on. Lifetime: that of a call.
struct FailureFacts {
  const TierSet& tiers;
  const FaultLog& faults;
  core::FrameIndex budget = 0;     ///< budget of the failure's tier, if the failure names one
  std::string_view custom_policy;  ///< name of the program's own policy; empty: a built-in one
};

/// Error for the owner of a failed ticket; see Ticket::Take for the codes.
absl::Status TicketFailureStatus(const core::FailTicket& failure,
                                 const internal::TicketState& ticket,
                                 const FailureFacts& facts);

/// The event as a line of the log.
std::string StallText(const LeaseStalledEvent& event);

}  // namespace sluice::engine
