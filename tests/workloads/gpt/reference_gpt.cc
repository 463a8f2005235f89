#include "tests/workloads/gpt/reference_gpt.h"

#include <cmath>
#include <numbers>

namespace sluice::gpt {

ReferenceGpt::Vector ReferenceGpt::Linear(const Vector& x, const std::string& name) const {
  const Vector& weight = At(name + ".weight");
  Vector y = At(name + ".bias");
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * weight[i * y.size() + j];
  }
  return y;
}

ReferenceGpt::Vector ReferenceGpt::Norm(const Vector& x, const std::string& name) const {
  double mean = 0;
  for (const double value : x) mean += value / double(x.size());
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / double(x.size());
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] =
        (x[i] - mean) / std::sqrt(variance + 1e-5) * At(name + ".gain")[i] + At(name + ".bias")[i];
  }
  return y;
}

ReferenceGpt::Vector ReferenceGpt::Attend(const std::vector<Vector>& qkv,
                                          std::size_t position) const {
  const auto width = static_cast<std::size_t>(model_.width);
  const std::size_t size = width / static_cast<std::size_t>(model_.heads);
  Vector out(width, 0.0);
  for (std::size_t head = 0; head < width; head += size) {
    Vector weights;
    double total = 0;
    for (std::size_t other = 0; other <= position; ++other) {
      double score = 0;
      for (std::size_t i = head; i < head + size; ++i) {
        score += qkv[position][i] * qkv[other][width + i];
      }
      weights.push_back(std::exp(score / std::sqrt(double(size))));
      total += weights.back();
    }
    for (std::size_t other = 0; other <= position; ++other) {
      for (std::size_t i = head; i < head + size; ++i) {
        out[i] += weights[other] / total * qkv[other][2 * width + i];
      }
    }
  }
  return out;
}

void ReferenceGpt::Layer(int layer, std::vector<Vector>& stream) const {
  const std::string prefix = "l" + std::to_string(layer) + ".";
  std::vector<Vector> qkv;
  for (const Vector& x : stream) qkv.push_back(Linear(Norm(x, prefix + "ln1"), prefix + "qkv"));
  for (std::size_t position = 0; position < stream.size(); ++position) {
    Vector& x = stream[position];
    const Vector attended = Linear(Attend(qkv, position), prefix + "out");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += attended[i];
    Vector hidden = Linear(Norm(x, prefix + "ln2"), prefix + "fc");
    for (double& h : hidden) {
      const double inner = std::sqrt(2 / std::numbers::pi) * (h + 0.044715 * h * h * h);
      h = 0.5 * h * (1 + std::tanh(inner));
    }
    const Vector projected = Linear(hidden, prefix + "proj");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += projected[i];
  }
}

std::vector<double> ReferenceGpt::Logits(std::span<const std::uint8_t> tokens) const {
  const auto width = static_cast<std::size_t>(model_.width);
  std::vector<Vector> stream;
  for (std::size_t position = 0; position < tokens.size(); ++position) {
    Vector& x = stream.emplace_back(width);
    for (std::size_t i = 0; i < width; ++i) {
      x[i] = At("tokens")[tokens[position] * width + i] + At("positions")[position * width + i];
    }
  }
  for (int layer = 0; layer < model_.layers; ++layer) Layer(layer, stream);
  Vector logits;
  for (const Vector& x : stream) {
    const Vector normed = Norm(x, "final");
    for (std::size_t token = 0; token < static_cast<std::size_t>(model_.vocab); ++token) {
      double logit = 0;
      for (std::size_t i = 0; i < width; ++i) logit += normed[i] * At("tokens")[token * width + i];
      logits.push_back(logit);
    }
  }
  return logits;
}

double ReferenceGpt::Loss(const Batch& batch) const {
  const auto context = static_cast<std::size_t>(model_.context);
  const auto vocab = static_cast<std::size_t>(model_.vocab);
  double loss = 0;
  for (std::size_t begin = 0; begin < batch.inputs.size(); begin += context) {
    const Vector logits = Logits(std::span(batch.inputs).subspan(begin, context));
    for (std::size_t position = 0; position < context; ++position) {
      const std::span<const double> row = std::span(logits).subspan(position * vocab, vocab);
      double total = 0;
      for (const double logit : row) total += std::exp(logit);
      loss += std::log(total) - row[batch.targets[begin + position]];
    }
  }
  return loss / double(batch.inputs.size());
}

}  // namespace sluice::gpt
