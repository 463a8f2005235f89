#pragma once

#include <cstdint>

#include "runtime/analysis/bounds/page_visits.h"

namespace sluice::analysis {

/// The least pages that every iteration copies out of the `capacity` pages above a link: see Note
/// [Why these are bounds] in bound.h.
std::uint64_t LeastPagesOut(const PageVisits& visits, std::uint64_t capacity);

}  // namespace sluice::analysis
