#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/text.h"

namespace sluice::gpt {

/// Token ids of one batch: inputs and the targets that follow them, [batch][context].
struct Batch {
  std::vector<std::uint8_t> inputs;
  std::vector<std::uint8_t> targets;
};

/// Bytes of text, split into a training part and a validation part at its end. A model with a
/// vocabulary smaller than 256 sees each byte modulo it. Threads: const methods from any.
class Dataset {
 public:
  /// Makes a dataset. Errors: InvalidArgument for text in which one of the parts is shorter than
  /// context + 1 bytes (names bytes needed and given).
  static absl::StatusOr<Dataset> FromText(Text text,
                                          const TrainConfig& train,
                                          const ModelConfig& model);
  static absl::StatusOr<Dataset> FromBytes(std::string_view bytes,
                                           const TrainConfig& train,
                                           const ModelConfig& model);

  /// Random windows of the training part, chosen by (seed, index) only.
  Batch TrainBatch(std::int64_t index) const;
  /// Windows of the validation part, the same ones in every call.
  Batch ValidationBatch(int index) const;

  const Text& text() const { return text_; }

 private:
  /// A range of text_.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Dataset(Text text, std::size_t split, const TrainConfig& train, const ModelConfig& model);
  Batch BatchOf(std::uint64_t stream, Part part) const;

  Text text_;
  std::size_t split_;  ///< first byte of the validation part
  std::size_t sequences_;
  std::size_t context_;
  std::size_t vocab_;
  std::uint64_t seed_;
};

}  // namespace sluice::gpt
