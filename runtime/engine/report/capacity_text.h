#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/core/core.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/data/tier_set.h"

/// Messages for a caller that wants more of a tier than is left.

namespace sluice::engine {

/// ResourceExhausted: the tensors, what they need, what is left in which tier, and what to raise.
absl::Status NoCapacityStatus(const core::SegmentRefused& refused,
                              const Segment::Parts& segment,
                              const TierSet& tiers);

/// Sums of the holders of a tier's budget, and the calls that give some of it back.
std::string UseText(core::TierIndex tier, const core::TierCounters& use, const TierSet& tiers);

}  // namespace sluice::engine
