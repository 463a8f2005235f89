#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/optim/save/state_file.h"
#include "sluice/optimizer.h"

/// The text of a save, which describes the save and its records, as JSON.

namespace sluice::optim {

/// Elements per dimension, see TensorSpec.
using SavedShape = std::vector<std::int64_t>;

struct SaveText {
  std::string layout;  ///< see LayoutDifference
  std::int64_t step = 0;
  std::string note;
  std::vector<GroupRates> rates;      ///< rates of each group
  std::vector<std::uint64_t> hashes;  ///< hash of each tensor, see StateRecord
  /// Own steps of each parameter. Older saves have none: `step` counts for every parameter.
  std::optional<std::vector<std::int64_t>> steps = std::nullopt;
  /// Shapes of each parameter; none: all are flat, as those of older saves are.
  std::vector<SavedShape> shapes = {};
};

std::string WriteSaveText(const SaveText& save);

/// Parses the text of a save, which may be any bytes. Errors: DataLoss (a text that WriteSaveText
/// does not make, rates that no group may have, a parameter with more steps than the optimizer).
absl::StatusOr<SaveText> ParseSaveText(std::string_view text);

/// The own steps of each of `parameters`. Saves from before parameters counted theirs have none:
/// the optimizer's steps count for each. Errors: DataLoss (steps of another number of parameters).
absl::StatusOr<std::vector<std::int64_t>> StepsOf(const SaveText& save, std::size_t parameters);

/// The shape of each parameter, checked against the numbers of elements. Errors: DataLoss (shapes
/// of other parameters).
absl::StatusOr<std::vector<SavedShape>> ShapesOf(const SaveText& save,
                                                 std::span<const std::uint64_t> counts);

/// Whether a tensor of the shape has `count` elements.
bool HasElements(const SavedShape& shape, std::uint64_t count);

/// The records of tensors of these sizes, which lie one after another before byte `end` of the
/// file. Errors: DataLoss (another number of hashes, or of bytes).
absl::StatusOr<std::vector<StateRecord>> PlaceRecords(std::span<const std::uint64_t> hashes,
                                                      std::span<const std::uint64_t> sizes,
                                                      std::uint64_t end);

/// DataLoss that says what the fault of the file is.
absl::Status DamagedSave(std::string_view what);

}  // namespace sluice::optim
