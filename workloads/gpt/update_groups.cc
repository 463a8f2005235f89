#include "workloads/gpt/update_groups.h"

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
    groups.push_back(
        {fmt::format("layer.{}", layer), {p.qkv_weight, p.out_weight, p.fc_weight, p.proj_weight}});
  }
  return groups;
}

}  // namespace sluice::gpt
