#include <cstdlib>

#include "io/store/mutants.h"

namespace sluice::io {

bool MutantIsActive(std::string_view name) {
  static const char* const kChosen = std::getenv("SLUICE_MUTANT");
  return kChosen != nullptr && name == kChosen;
}

}  // namespace sluice::io
