#pragma once

#include <cstdint>
#include <string>

#include "io/store/page_store.h"

namespace sluice::faults {

/// Forks a child that reads and writes a page of the inherited store. Both must be refused
/// (FailedPrecondition) within the call. Returns the first other outcome; empty: none.
std::string CallStoreInChild(io::PageStore& store, std::uint64_t page_bytes);

}  // namespace sluice::faults
