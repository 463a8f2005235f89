#pragma once

#include <string>
#include <vector>

#include "runtime/engine/data/page_owners.h"
#include "sluice/events.h"

namespace sluice::engine {

/// The tensors in these pages and how many bytes of each, in the order in which they come first.
std::vector<SoleCopy> SoleCopiesIn(const PageOwners& owners, const std::vector<PageIndex>& pages);

/// That there are none, or the tensors by name, the first few where there are many.
std::string Describe(const std::vector<SoleCopy>& copies);

}  // namespace sluice::engine
