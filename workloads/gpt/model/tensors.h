#pragma once

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/tensor.h"
#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/parameters.h"

namespace sluice::gpt {

/// Tensors that one layer stashes for its backward, per group of sequences: [rows, ...] with rows =
/// group_sequences * context and d = width.
struct LayerActivations {
  TensorId input;          ///< [rows, d], for the backward of ln1
  TensorId ln1;            ///< [rows, d], for the gradient of qkv's weight
  TensorId qkv;            ///< [rows, 3 d]
  TensorId probabilities;  ///< [sequences, heads, context, context]
  TensorId attention;      ///< [rows, d], for the gradient of out's weight
  TensorId middle;         ///< [rows, d], after attention, for the backward of ln2
  TensorId ln2;            ///< [rows, d], for the gradient of fc's weight
  TensorId fc;             ///< [rows, 4 d], for the derivative of gelu
  TensorId gelu;           ///< [rows, 4 d], for the gradient of proj's weight
};

/// Tensors that one op hands to the next and that are then discarded. One set serves all layers and
/// groups.
struct ScratchTensors {
  TensorId d_fc;         ///< [rows, 4 d]
  TensorId d_ln;         ///< [rows, d]
  TensorId d_qkv;        ///< [rows, 3 d]
  TensorId d_attention;  ///< [rows, d]
  TensorId d_scores;     ///< [context, context]
  TensorId final_ln;     ///< [rows, d]
  TensorId logits;       ///< [rows, vocab]
};

/// Every tensor of the workload. Vectors indexed by parameter follow ParameterList::all.
struct Tensors {
  /// Creates all tensors but the moments and their scales. Errors: those of Memory.
  static absl::StatusOr<Tensors> Create(const ModelConfig& model,
                                        const TrainConfig& train,
                                        const ParameterList& parameters,
                                        Memory& memory);

  std::vector<TensorId> values;
  std::vector<TensorId> gradients;
  /// Moments. The Updater creates these and their scales.
  std::array<std::vector<TensorId>, 2> moments;
  std::array<std::vector<TensorId>, 2> scales;        ///< scales of 8-bit moments
  std::vector<std::vector<LayerActivations>> layers;  ///< activations by [layer][group]
  std::vector<TensorId> outputs;                      ///< outputs of the last layer by [group]
  /// Gradients of the residual stream by [group].
  std::vector<TensorId> d_stream;
  ScratchTensors scratch;
};

/// Creates one tensor per parameter: the vectors together in one segment, each matrix in its own.
/// Errors: those of Memory.
absl::StatusOr<std::vector<TensorId>> CreatePerParameter(const ParameterList& parameters,
                                                         const std::string& suffix,
                                                         TensorKind kind,
                                                         Memory& memory);

/// The spec of a parameter's value, or of a companion with another name and kind.
TensorSpec SpecOf(const Parameter& parameter, const std::string& suffix, TensorKind kind);

}  // namespace sluice::gpt
