#pragma once

#include "io/store/page_store.h"

namespace sluice::io {

// Planted bugs in when `done` is called; `store` is what the operations in question share. Only
// tests/mutants defines them: no other build gets there (see SLUICE_MUTANT).

/// Whichever operation ends, the oldest that was not told is.
DoneFn TellTheOldest(const void* store, DoneFn done);

/// What many later operations have overtaken is told that it is done.
DoneFn GiveUpWhatIsLate(const void* store, DoneFn done);

}  // namespace sluice::io
