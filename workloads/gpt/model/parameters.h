#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/gpt/model/config.h"

namespace sluice::gpt {

/// One parameter tensor, and its initial distribution.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  /// Elements start as initial_mean + initial_deviation * normal.
  float initial_mean = 0;
  float initial_deviation = 0;

  std::size_t count() const;
  /// Whether the parameter is a vector. Vectors (biases, gains) share segments and are not decayed;
  /// matrices are alone in theirs.
  bool is_vector() const { return shape.size() == 1; }
};

/// Indices into ParameterList::all. A projection's weight is [in, out].
struct LayerParameters {
  std::size_t ln1_gain = 0, ln1_bias = 0;
  std::size_t qkv_weight = 0, qkv_bias = 0;
  std::size_t out_weight = 0, out_bias = 0;
  std::size_t ln2_gain = 0, ln2_bias = 0;
  std::size_t fc_weight = 0, fc_bias = 0;
  std::size_t proj_weight = 0, proj_bias = 0;
};

/// All parameters in the order in which they are created, streamed and saved.
struct ParameterList {
  explicit ParameterList(const ModelConfig& model);

  std::vector<Parameter> all;
  std::size_t tokens = 0;  ///< index of the token table, [vocab, width]; also the output head
  std::size_t positions = 0;
  std::vector<LayerParameters> layers;
  std::size_t final_gain = 0, final_bias = 0;
};

}  // namespace sluice::gpt
