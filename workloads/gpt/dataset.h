#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workloads/gpt/config.h"

namespace sluice::gpt {

/// Token ids of one batch: inputs and the targets that follow them, [batch][context].
struct Batch {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
};

/// Bytes of text, split into a training and a validation part. Deterministic by (seed, step).
class Dataset {
 public:
  /// Errors: InvalidArgument when the text is too short (names bytes needed and given) .
  static absl::StatusOr<Dataset> FromBytes(std::string text,
                                           const TrainConfig& train,
                                           const ModelConfig& model);
  Batch TrainBatch(int step) const;
  Batch ValidationBatch(int index) const;

 private:
  Batch BatchAt(std::uint64_t stream, std::size_t begin, std::size_t end) const;

  std::string text_;
  std::size_t split_ = 0;  ///< first byte of the validation part
  TrainConfig train_;
  ModelConfig model_;
};

}  // namespace sluice::gpt
