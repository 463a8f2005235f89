#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/optim/kernels/kernel.h"
#include "sluice/optimizer.h"
#include "sluice/tensor.h"

/// Contents of a save: the optimizer, its groups and their parameters. A layout is the text
/// `layout` of a SaveText, and says which records there are.

namespace sluice::optim {

struct LayoutParameter {
  std::string name;
  ParameterType type = ParameterType::kFp32;
  std::uint64_t count = 0;  ///< elements
};

struct LayoutGroup {
  std::string name;
  std::vector<LayoutParameter> parameters;
};

struct SaveLayout {
  OptimizerKind kind = OptimizerKind::kAdamW;
  StateType state = StateType::kFp32;
  std::uint64_t seed = 0;
  std::vector<LayoutGroup> groups;
};

std::string WriteLayout(const SaveLayout& layout);

/// Parses a layout. `text` may be any text. Errors: DataLoss (a text that WriteLayout does not
/// make).
absl::StatusOr<SaveLayout> ParseLayout(std::string_view text);

/// One tensor that a save has of a parameter.
struct ParameterRecord {
  std::string suffix;  ///< follows the parameter's name: "", ".m", ".m.scale"
  DType type = DType::kF32;
  std::uint64_t count = 0;

  std::uint64_t bytes() const { return count * SizeOf(type); }
};

/// Records of a parameter in the order of the file: the parameter, its states, the scales of 8-bit
/// states.
std::vector<ParameterRecord> RecordsOf(const LayoutParameter& parameter,
                                       OptimizerKind kind,
                                       StateType state);

}  // namespace sluice::optim
