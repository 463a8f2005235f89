#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors/weight_files.h"

namespace sluice::tools {

/// Count of tensors that are told together.
struct WeightCount {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Layers whose names differ by their number alone, or one module that has no number.
struct WeightLayers {
  std::string name;  ///< "model.layers.*" or "model.embed_tokens"
  std::uint64_t layers = 0;
  std::uint64_t bytes_min = 0;  ///< bytes of the smallest layer
  std::uint64_t bytes_max = 0;  ///< bytes of the largest layer
  WeightCount all;
};

struct WeightContents {
  std::map<std::string, WeightCount> types;  ///< counts by the format's name of the type: "BF16"
  std::vector<WeightLayers> layers;          ///< sorted by name
  WeightCount all;
};

/// Contents of a checkpoint, as counts of its tensors.
WeightContents ContentsOf(const io::WeightFiles& weights);

/// The layer of a tensor: its name up to the first number, "model.layers.0", else its name without
/// the last part.
std::string LayerOf(const std::string& tensor);

}  // namespace sluice::tools
