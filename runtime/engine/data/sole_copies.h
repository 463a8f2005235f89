#pragma once

#include <string>
#include <vector>

#include "runtime/engine/data/page_owners.h"
#include "sluice/events.h"

namespace sluice::engine {

/// The tensors in these pages and how many bytes of each, in the order in which they come first.
std::vector<SoleCopy> SoleCopiesIn(const PageOwners& owners, const std::vector<PageIndex>& pages);

/// Text that names the tensors, the first few where there are many, or says that there are none.
std::string Describe(const std::vector<SoleCopy>& copies);

}  // namespace sluice::engine
