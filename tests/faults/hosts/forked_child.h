#pragma once

#include <cstdint>
#include <string>

#include "io/store/page_store.h"

namespace sluice::faults {

/// Forks; the child reads and writes a page of the store that it has inherited, and both must be
/// refused (FailedPrecondition) within the call. What went otherwise; empty: nothing.
std::string CallStoreInChild(io::PageStore& store, std::uint64_t page_bytes);

}  // namespace sluice::faults
