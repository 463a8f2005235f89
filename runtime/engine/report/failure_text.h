#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/fault_log.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Error for the owner of a failed ticket; see Ticket::Take for the codes. `budget`: that of the
/// failure's tier, if the failure names one.
absl::Status TicketFailureStatus(const core::FailTicket& failure,
                                 const internal::TicketState& ticket,
                                 const TierSet& tiers,
                                 core::FrameIndex budget,
                                 const FaultLog& faults);

/// The event as a line of the log.
std::string StallText(const LeaseStalledEvent& event);

}  // namespace sluice::engine
