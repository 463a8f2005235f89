#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/core/core.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/machine.h"

namespace sluice::sim {

/// Errors of a schedule that cannot run on a machine. Each names the tier and the bytes that it
/// would take.

/// InvalidArgument: no machine, or a tier too small for any op.
absl::Status CheckMachine(const Machine& machine,
                          const core::CoreOptions& core,
                          std::uint64_t page_bytes);

/// InvalidArgument: the op alone needs more pages of a tier than it can ever have. The message
/// names the op of the schedule that needs most there.
absl::Status OpTooLarge(const Machine& machine,
                        const PageLayout& layout,
                        const core::FailTicket& failure,
                        std::uint32_t op);

/// ResourceExhausted: all tiers together have no room for what lives at once.
struct Crowd {
  std::uint64_t pages = 0;  ///< pages that would live
  std::uint64_t room = 0;   ///< pages that fit
  /// The op that makes one page too many; none: persistent pages have no room.
  const PagedOp* op = nullptr;
};
absl::Status TooMuchAlive(const Machine& machine, const PageLayout& layout, const Crowd& crowd);

}  // namespace sluice::sim
