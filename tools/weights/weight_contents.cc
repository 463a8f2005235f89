#include "tools/weights/weight_contents.h"

#include <algorithm>
#include <string_view>

namespace sluice::tools {
namespace {

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "model.layers.*" for "model.layers.0"
std::string PatternOf(const std::string& layer) {
  const std::size_t dot = layer.rfind('.');
  const std::string_view last =
      std::string_view(layer).substr(dot == std::string::npos ? 0 : dot + 1);
  if (!IsNumber(last)) return layer;
  return dot == std::string::npos ? "*" : layer.substr(0, dot) + ".*";
}

void Add(const io::SafetensorsEntry& tensor, WeightCount& count) {
  ++count.tensors;
  count.bytes += tensor.bytes;
}

std::vector<WeightLayers> Gather(const std::map<std::string, WeightCount>& layers) {
  std::map<std::string, WeightLayers> gathered;
  for (const auto& [layer, count] : layers) {
    WeightLayers& into = gathered[PatternOf(layer)];
    into.name = PatternOf(layer);
    into.bytes_min = into.layers == 0 ? count.bytes : std::min(into.bytes_min, count.bytes);
    into.bytes_max = std::max(into.bytes_max, count.bytes);
    ++into.layers;
    into.all.tensors += count.tensors;
    into.all.bytes += count.bytes;
  }
  std::vector<WeightLayers> sorted;
  for (auto& [name, each] : gathered) sorted.push_back(std::move(each));
  return sorted;
}

}  // namespace

std::string LayerOf(const std::string& tensor) {
  std::size_t begin = 0;
  while (begin < tensor.size()) {
    const std::size_t end = std::min(tensor.find('.', begin), tensor.size());
    if (IsNumber(std::string_view(tensor).substr(begin, end - begin))) return tensor.substr(0, end);
    begin = end + 1;
  }
  const std::size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? tensor : tensor.substr(0, dot);
}

WeightContents ContentsOf(const io::WeightFiles& weights) {
  WeightContents contents;
  std::map<std::string, WeightCount> layers;
  for (const io::WeightTensor& tensor : weights.tensors()) {
    Add(*tensor.entry, contents.all);
    Add(*tensor.entry, contents.types[std::string(tensor.entry->type->name)]);
    Add(*tensor.entry, layers[LayerOf(tensor.entry->name)]);
  }
  contents.layers = Gather(layers);
  return contents;
}

}  // namespace sluice::tools
