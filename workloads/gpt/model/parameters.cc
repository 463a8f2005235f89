#include "workloads/gpt/model/parameters.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"

namespace sluice::gpt {
namespace {

constexpr float kInitialDeviation = 0.02f;

class Adder {
 public:
  explicit Adder(std::vector<Parameter>& all) : all_(all) {}

  std::size_t Vector(std::string name, int size, float mean) {
    return Add({.name = std::move(name), .shape = {size}, .initial_mean = mean});
  }
  std::size_t Matrix(std::string name, int rows, int columns, float deviation) {
    return Add({.name = std::move(name), .shape = {rows, columns}, .initial_deviation = deviation});
  }

 private:
  std::size_t Add(Parameter parameter) {
    all_.push_back(std::move(parameter));
    return all_.size() - 1;
  }
  std::vector<Parameter>& all_;
};

LayerParameters AddLayer(const ModelConfig& model, int layer, Adder add) {
  const int d = model.width;
  const auto name = [&](const char* part) { return fmt::format("l{}.{}", layer, part); };
  // Weights that add to the residual stream start smaller, so that its variance does not grow with
  // depth.
  const float residual = kInitialDeviation / std::sqrt(2.0f * static_cast<float>(model.layers));
  LayerParameters p;
  p.ln1_gain = add.Vector(name("ln1.gain"), d, 1);
  p.ln1_bias = add.Vector(name("ln1.bias"), d, 0);
  p.qkv_weight = add.Matrix(name("qkv.weight"), d, 3 * d, kInitialDeviation);
  p.qkv_bias = add.Vector(name("qkv.bias"), 3 * d, 0);
  p.out_weight = add.Matrix(name("out.weight"), d, d, residual);
  p.out_bias = add.Vector(name("out.bias"), d, 0);
  p.ln2_gain = add.Vector(name("ln2.gain"), d, 1);
  p.ln2_bias = add.Vector(name("ln2.bias"), d, 0);
  p.fc_weight = add.Matrix(name("fc.weight"), d, 4 * d, kInitialDeviation);
  p.fc_bias = add.Vector(name("fc.bias"), 4 * d, 0);
  p.proj_weight = add.Matrix(name("proj.weight"), 4 * d, d, residual);
  p.proj_bias = add.Vector(name("proj.bias"), d, 0);
  return p;
}

}  // namespace

std::size_t Parameter::count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

ParameterList::ParameterList(const ModelConfig& model) {
  Adder add(all);
  tokens = add.Matrix("tokens", model.vocab, model.width, kInitialDeviation);
  positions = add.Matrix("positions", model.context, model.width, kInitialDeviation);
  for (int layer = 0; layer < model.layers; ++layer) {
    layers.push_back(AddLayer(model, layer, add));
  }
  final_gain = add.Vector("final.gain", model.width, 1);
  final_bias = add.Vector("final.bias", model.width, 0);
}

}  // namespace sluice::gpt
