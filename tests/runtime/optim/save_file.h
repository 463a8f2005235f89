#pragma once

#include <functional>
#include <string>

#include "nlohmann/json.hpp"

namespace sluice::optim {

/// The file of the save in `directory`.
std::string ReadSaveFile(const std::string& directory);

/// Gives the save in `directory` a text that says something else.
void RewriteSaveText(const std::string& directory,
                     const std::function<void(nlohmann::json& text)>& change);

/// Makes it one of format 1, which has an XXH3-64 of each tensor.
void RewriteSaveAsFormat1(const std::string& directory);

}  // namespace sluice::optim
