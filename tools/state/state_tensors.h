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

/// A save, and the names of its tensors in a safetensors file.

namespace sluice::tools {

/// The contents of a save, without the bytes of its tensors.
struct StateDescription {
  optim::SaveLayout layout;
  std::int64_t step = 0;
  std::string note;
  std::vector<GroupRates> rates;    ///< one entry for each group
  std::vector<std::int64_t> steps;  ///< own steps, one entry for each parameter
  /// Name of each parameter's tensor in the file.
  std::vector<std::string> keys;
  std::vector<optim::SavedShape> shapes;  ///< one entry for each parameter
};

/// One tensor of a save.
struct StateTensor {
  std::string key;
  DType type = DType::kF32;
  std::uint64_t count = 0;
  optim::SavedShape shape;  ///< shape of its parameter, if that has as many elements; else flat

  std::uint64_t bytes() const { return count * SizeOf(type); }
};

/// The values of codes, as one more tensor of the file.
struct StateCodes {
  std::string key;  ///< name of the table: "sluice.code.m"
  CodeTable table{};
};

/// Describes a save by its text. Errors: DataLoss (a text that contradicts itself).
absl::StatusOr<StateDescription> DescribeState(const optim::SaveText& text);

/// The text of a description, with the checksum of each tensor.
optim::SaveText SaveTextOf(const StateDescription& state, std::vector<std::uint64_t> hashes);

/// Tensors in the order of the save.
std::vector<StateTensor> TensorsOf(const StateDescription& state);

/// One table for each 8-bit state of the optimizer; none for other types.
std::vector<StateCodes> CodesOf(const optim::SaveLayout& layout);

/// Meaning of the optimizer's state with the number: "first moment".
std::string_view StateMeaning(OptimizerKind kind, int state);
/// Letter of the state in the names of tensors: "m" or "v".
std::string_view StateLetter(int state);

}  // namespace sluice::tools
