#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/gpt/memory/memory.h"
#include "workloads/gpt/memory/ram_memory.h"
#include "workloads/gpt/model/dataset.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::gpt {

/// A model that trains in milliseconds and has every part: two layers, two heads, two groups.
ModelConfig TinyModel();
TrainConfig TinyTrain();
/// Text with something to learn.
std::string TinyText();
Dataset TinyDataset(const TrainConfig& train = TinyTrain());

/// The bytes of tensors by name.
using StateBytes = std::map<std::string, std::string>;
/// Bytes that Trainer::ForEachState streams. The test fails if pieces overlap or leave gaps.
StateBytes StateBytesOf(Trainer& trainer);
/// Tensors by name.
using State = std::map<std::string, std::vector<float>>;
/// State as numbers. REQUIRES: all tensors are fp32.
State StateOf(Trainer& trainer);

/// A RamMemory that keeps a copy of all gradients as they are just before the update.
class GradientTap : public Memory {
 public:
  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs) override;
  absl::Status BeginIteration(std::string_view key) override;
  absl::Status EndIteration() override { return memory_.EndIteration(); }
  absl::Status Run(OpSpec op) override;
  absl::Status Flush() override { return memory_.Flush(); }
  void SetObserver(OpObserver observer) override { memory_.SetObserver(std::move(observer)); }

  /// Gradients of the last step, by parameter.
  const State& gradients() const { return gradients_; }

 private:
  absl::Status CopyGradients();

  RamMemory memory_;
  std::vector<std::pair<std::string, TensorId>> tensors_;
  bool copied_ = false;
  State gradients_;
};

}  // namespace sluice::gpt
