#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/control/ticket_state.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/fault_log.h"
#include "sluice/events.h"

namespace sluice::engine {

/// What a failed ticket's owner is told; see Ticket::Take for the codes. `budget` is that of the
/// failure's tier, if it names one.
absl::Status TicketFailureStatus(const core::FailTicket& failure,
                                 const internal::TicketState& ticket,
                                 const TierSet& tiers,
                                 core::FrameIndex budget,
                                 const FaultLog& faults);

/// The event as a line of the log.
std::string StallText(const LeaseStalledEvent& event);

}  // namespace sluice::engine
