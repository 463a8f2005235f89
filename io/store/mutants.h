#pragma once

/// Planted bugs, to see that the tests find them: SLUICE_MUTANT("name") is false in every build but
/// that of tests/mutants, where one name at a time is switched on. tests/mutants/run_mutants.py
/// says which fault each stands for.
#ifdef SLUICE_MUTANTS
#include <string_view>

namespace sluice::io {
bool MutantIsActive(std::string_view name);
}  // namespace sluice::io
#define SLUICE_MUTANT(name) (::sluice::io::MutantIsActive(name))
#else
#define SLUICE_MUTANT(name) (false)
#endif
