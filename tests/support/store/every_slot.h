#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/store/page_store.h"

namespace sluice::testing {

/// Writes and reads every slot, in any order, one after another. Returns the first error; empty:
/// every slot gives back its content. Other generations have other bytes. `options` are those of
/// the store.
std::string UseEverySlot(io::PageStore& store,
                         const io::PageStoreOptions& options,
                         std::uint64_t generation);

/// Makes a store and uses every slot of it. Returns the first error, or why there is no store.
std::string UseANewStore(const io::PageStoreOptions& options);

/// Uses every slot again and again, for a process that is to be killed. Calls `begun` once each
/// slot has been used. Returns only after an error.
void UseAStoreForEver(const io::PageStoreOptions& options, const std::function<void()>& begun);

}  // namespace sluice::testing
