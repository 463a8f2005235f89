#include "tests/support/project_paths.h"

namespace sluice::testing {

std::string ProjectFile(const std::string& name) { return SLUICE_SOURCE_DIRECTORY "/" + name; }

std::string SluiceCommand() { return SLUICE_BINARY_DIRECTORY "/sluice"; }

}  // namespace sluice::testing
