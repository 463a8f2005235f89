#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/optim/save/save_layout.h"
#include "runtime/optim/save/save_text.h"
#include "sluice/optimizer.h"
#include "sluice/tensor.h"
#include "tools/state/code_table.h"

/// A save, and what its tensors are called in a safetensors file.

namespace sluice::tools {

/// All that a save holds beside the bytes of its tensors.
struct StateDescription {
  optim::SaveLayout layout;
  std::int64_t step = 0;
  std::string note;
  std::vector<GroupRates> rates;    ///< one entry for each group
  std::vector<std::int64_t> steps;  ///< own steps, one entry for each parameter
  /// What each parameter's tensor is called in the file.
  std::vector<std::string> keys;
  std::vector<optim::SavedShape> shapes;  ///< one entry for each parameter
};

/// One tensor of a save.
struct StateTensor {
  std::string key;
  DType type = DType::kF32;
  std::uint64_t count = 0;
  optim::SavedShape shape;  ///< shape of its parameter, if as many elements; else flat

  std::uint64_t bytes() const { return count * SizeOf(type); }
};

/// The values of codes, as one more tensor of the file.
struct StateCodes {
  std::string key;  ///< "sluice.code.m"
  CodeTable table{};
};

/// Errors: DataLoss (a text that contradicts itself).
absl::StatusOr<StateDescription> DescribeState(const optim::SaveText& text);

/// The other way, with the checksum of each tensor.
optim::SaveText SaveTextOf(const StateDescription& state, std::vector<std::uint64_t> hashes);

/// In the order of the save.
std::vector<StateTensor> TensorsOf(const StateDescription& state);

/// One table for each 8-bit state of the optimizer; none for other types.
std::vector<StateCodes> CodesOf(const optim::SaveLayout& layout);

/// "first moment", of the optimizer's state with the number.
std::string_view StateMeaning(OptimizerKind kind, int state);
/// "m" or "v", as in the names of tensors.
std::string_view StateLetter(int state);

}  // namespace sluice::tools
