#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "workloads/gpt/model/config.h"
#include "workloads/gpt/model/dataset.h"

namespace sluice::gpt {

/// The model once more, written for reading: in double, one token after another, no matrix library,
/// sharing nothing with the workload but the names of its parameters.
class ReferenceGpt {
 public:
  explicit ReferenceGpt(const ModelConfig& model) : model_(model) {}

  /// Parameters by name, row-major; weights are [in, out].
  std::map<std::string, std::vector<double>>& parameters() { return parameters_; }

  /// Logits, [tokens][vocab].
  std::vector<double> Logits(std::span<const std::uint8_t> tokens) const;
  /// Mean cross-entropy over all tokens of the batch, in nats.
  double Loss(const Batch& batch) const;

 private:
  using Vector = std::vector<double>;

  const Vector& At(const std::string& name) const { return parameters_.at(name); }
  /// Computes x W + b.
  Vector Linear(const Vector& x, const std::string& name) const;
  Vector Norm(const Vector& x, const std::string& name) const;
  /// One layer over all positions.
  void Layer(int layer, std::vector<Vector>& stream) const;
  Vector Attend(const std::vector<Vector>& qkv, std::size_t position) const;

  const ModelConfig model_;
  std::map<std::string, Vector> parameters_;
};

}  // namespace sluice::gpt
