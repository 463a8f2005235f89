#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/safetensors/safetensors_reader.h"
#include "workloads/gpt/model/config.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

/// The weights that a run with --init begins from. Their file comes from --save, or from `sluice
/// state export` of a run's save. Threads: any.
class InitialWeights {
 public:
  /// Opens the file. Errors: those of io::SafetensorsReader::Open, InvalidArgument that names the
  /// first tensor that is not the model's, or the number of heads, and the key to set.
  static absl::StatusOr<InitialWeights> Open(const std::string& path,
                                             const gpt::ModelConfig& model);

  /// Replaces all parameters of a trainer of the same model.
  absl::Status Fill(gpt::Trainer& trainer) const;

 private:
  explicit InitialWeights(std::unique_ptr<io::SafetensorsReader> file) : file_(std::move(file)) {}
  absl::Status Check(const gpt::ModelConfig& model) const;
  /// Reads values of a parameter as fp32.
  absl::Status Read(const std::string& parameter,
                    std::uint64_t element,
                    std::span<float> values) const;

  std::unique_ptr<io::SafetensorsReader> file_;
};

/// The value of a bf16 or fp16 number, which fp32 holds exactly.
float FloatOfBf16(std::uint16_t bits);
float FloatOfF16(std::uint16_t bits);

}  // namespace sluice::tools
