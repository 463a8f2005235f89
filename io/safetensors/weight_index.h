#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

/// The index of a checkpoint in several files, model.safetensors.index.json: which file has which
/// tensor.

namespace sluice::io {

/// Bytes of an index that is read at most.
inline constexpr std::uint64_t kWeightIndexBytesMax = 100'000'000;

/// File of each tensor, by the tensor's name. The parser works event by event, so that nothing else
/// is kept. Errors: InvalidArgument: no JSON, no "weight_map" of texts, a name given twice, a file
/// that is not named as one of the index's own directory.
absl::StatusOr<std::map<std::string, std::string>> ParseWeightIndex(std::string_view json);

}  // namespace sluice::io
