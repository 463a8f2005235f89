#pragma once

#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// Splits a schedule into one per lane, in order of their first ops. Bounds of these hold however
/// the lanes run beside each other, of which the recorded order says nothing.
///
/// Note [Lanes apart]
/// Each schedule holds the ops of its lane. A segment counts in one lane at most:
/// - in the only lane that writes it
/// - in the first lane that reads it above, if nobody writes it, or another lane writes it below
///   the link only
/// - in no lane, if several write it or another lane discards it.
/// Accesses of other lanes can only add transfers: reads ask for more fetches, and writes below
/// make copies above stale. In the lanes where a segment does not count, its pages take room while
/// an op holds them. They are never fetched nor copied out there: their accesses are overwrites
/// that nobody reads. So no page counts twice, and the bytes of all lanes may be added.
std::vector<Schedule> SplitLanes(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::analysis
