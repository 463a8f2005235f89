#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/save_text.h"

namespace sluice::tools {

/// A save of any layout, whose tensors have random bytes, without an optimizer.
struct MadeSave {
  optim::SaveLayout layout;
  std::int64_t step = 9;
  std::string note = "a note";
  std::optional<std::vector<std::int64_t>> steps;
  std::vector<optim::SavedShape> shapes = {};

  /// Writes the save into a directory that exists.
  void Write(const std::string& directory) const;
};

}  // namespace sluice::tools
