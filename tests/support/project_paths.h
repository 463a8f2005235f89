#pragma once

#include <string>

namespace sluice::testing {

/// Path of a file of the source tree, for example "configs/train-gpt.toml".
std::string ProjectFile(const std::string& name);

/// Path of the `sluice` command of this build.
std::string SluiceCommand();

}  // namespace sluice::testing
