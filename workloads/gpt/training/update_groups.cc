#include "workloads/gpt/training/update_groups.h"

#include "fmt/format.h"

namespace sluice::gpt {

std::vector<UpdateGroup> GroupsOf(const ParameterList& parameters) {
  std::vector<UpdateGroup> groups = {{"embedding", {parameters.tokens, parameters.positions}},
                                     {"vectors", {}}};
  for (std::size_t i = 0; i < parameters.all.size(); ++i) {
    if (parameters.all[i].is_vector()) groups.back().parameters.push_back(i);
  }
  for (std::size_t layer = 0; layer < parameters.layers.size(); ++layer) {
    const LayerParameters& p = parameters.layers[layer];
    const std::string name = fmt::format("layer.{}", layer);
    groups.push_back({name + ".qkv", {p.qkv_weight}});
    groups.push_back({name + ".attention", {p.out_weight}});
    groups.push_back({name + ".mlp", {p.fc_weight, p.proj_weight}});
  }
  return groups;
}

}  // namespace sluice::gpt
