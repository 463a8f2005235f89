#include <cstdlib>

#include "io/mutants.h"

namespace sluice::io {

bool MutantIsActive(std::string_view name) {
  static const char* const chosen = std::getenv("SLUICE_MUTANT");
  return chosen != nullptr && name == chosen;
}

}  // namespace sluice::io
