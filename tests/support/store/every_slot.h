#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/store/page_store.h"

namespace sluice::testing {

/// What is wrong; nothing when every slot gives back what is written into it, in any order, one
/// after another. Other generations have other bytes. `options` are those of the store.
std::string UseEverySlot(io::PageStore& store,
                         const io::PageStoreOptions& options,
                         std::uint64_t generation);

/// The same for a new store, and why there is none.
std::string UseANewStore(const io::PageStoreOptions& options);

/// Goes on with it for ever, for a process that is to be killed; calls `begun` once each slot has
/// been used. Returns only when something is wrong.
void UseAStoreForEver(const io::PageStoreOptions& options, const std::function<void()>& begun);

}  // namespace sluice::testing
