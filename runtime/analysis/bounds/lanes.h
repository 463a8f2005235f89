#pragma once

#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// One schedule per lane, in order of their first ops, for bounds that hold however the lanes run
/// beside each other (the recorded order says nothing of that).
///
/// Note [Lanes apart]
/// Each holds the ops of its lane. A segment counts in one lane at most: the only one that writes
/// it, or, where nobody or another lane writes it below the link only, the first that reads it
/// above. What the others do to it can only add transfers: reads ask for more fetches, writes below
/// make copies above stale.
///
/// In all other lanes, or in all of them when several write it or another lane discards it, its
/// pages take room while an op holds them and are never fetched nor copied out: their accesses are
/// overwrites that nobody reads. So no page counts twice, and the bytes of all lanes may be added.
std::vector<Schedule> SplitLanes(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::analysis
