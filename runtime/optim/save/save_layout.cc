#include "runtime/optim/save/save_layout.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/shallow_json.h"

namespace sluice::optim {
namespace {

using LayoutJson = nlohmann::json;

/// Largest count of elements in a save. Its bytes still fit into 64 bits.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 58;
constexpr const char* kStateSuffixes[] = {".m", ".v"};

/// The enumerator up to `last` that has the name.
template <typename Enum>
std::optional<Enum> EnumCalled(const std::string& name, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (ToString(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::optional<std::string> TextAt(const LayoutJson& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return {};
  return object[key].get<std::string>();
}

std::optional<std::uint64_t> NumberAt(const LayoutJson& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return std::nullopt;
  const LayoutJson& value = object[key];
  return value.is_number_unsigned() ? std::optional(value.get<std::uint64_t>()) : std::nullopt;
}

std::optional<LayoutParameter> ParseParameter(const LayoutJson& json) {
  const std::optional<std::string> name = TextAt(json, "name");
  const std::optional<std::string> type = TextAt(json, "type");
  const std::optional<std::uint64_t> count = NumberAt(json, "count");
  if (!name || !type || !count || *count == 0 || *count > kCountMax) return std::nullopt;
  const auto known = EnumCalled(*type, ParameterType::kBf16);
  if (!known) return std::nullopt;
  return LayoutParameter{*name, *known, *count};
}

std::optional<LayoutGroup> ParseGroup(const LayoutJson& json) {
  const std::optional<std::string> name = TextAt(json, "name");
  if (!name || !json.contains("parameters") || !json["parameters"].is_array()) return {};
  LayoutGroup group{.name = *name, .parameters = {}};
  for (const LayoutJson& each : json["parameters"]) {
    std::optional<LayoutParameter> parameter = ParseParameter(each);
    if (!parameter) return std::nullopt;
    group.parameters.push_back(*std::move(parameter));
  }
  return group;
}

DType TypeOfStates(StateType state) {
  if (state == StateType::k8Bit) return DType::kU8;
  return state == StateType::kBf16 ? DType::kBF16 : DType::kF32;
}

}  // namespace

std::string WriteLayout(const SaveLayout& layout) {
  LayoutJson groups = LayoutJson::array();
  for (const LayoutGroup& group : layout.groups) {
    LayoutJson parameters = LayoutJson::array();
    for (const LayoutParameter& parameter : group.parameters) {
      parameters.push_back({{"name", parameter.name},
                            {"type", ToString(parameter.type)},
                            {"count", parameter.count}});
    }
    groups.push_back({{"name", group.name}, {"parameters", std::move(parameters)}});
  }
  return LayoutJson{{"optimizer", ToString(layout.kind)},
                    {"state", ToString(layout.state)},
                    {"seed", layout.seed},
                    {"groups", std::move(groups)}}
      .dump(-1, ' ', false, LayoutJson::error_handler_t::replace);
}

absl::StatusOr<SaveLayout> ParseLayout(std::string_view text) {
  const LayoutJson json = ParseShallowJson(text);
  const auto kind = EnumCalled(TextAt(json, "optimizer").value_or(""), OptimizerKind::kAdagrad);
  const auto state = EnumCalled(TextAt(json, "state").value_or(""), StateType::k8Bit);
  const std::optional<std::uint64_t> seed = NumberAt(json, "seed");
  if (!kind || !state || !seed || !json.contains("groups") || !json["groups"].is_array()) {
    return DamagedSave("it does not say of which optimizer it is");
  }
  SaveLayout layout{.kind = *kind, .state = *state, .seed = *seed, .groups = {}};
  for (const LayoutJson& each : json["groups"]) {
    std::optional<LayoutGroup> group = ParseGroup(each);
    if (!group) {
      return DamagedSave(fmt::format("group {} is not described as one", layout.groups.size()));
    }
    layout.groups.push_back(*std::move(group));
  }
  if (WriteLayout(layout) != text) return DamagedSave("its layout has what is not known here");
  return layout;
}

std::vector<ParameterRecord> RecordsOf(const LayoutParameter& parameter,
                                       OptimizerKind kind,
                                       StateType state) {
  const bool bf16 = parameter.type == ParameterType::kBf16;
  std::vector<ParameterRecord> records = {{"", bf16 ? DType::kBF16 : DType::kF32, parameter.count}};
  const int states = StateCount(kind);
  for (int s = 0; s < states; ++s) {
    records.push_back({kStateSuffixes[s], TypeOfStates(state), parameter.count});
  }
  const std::uint64_t blocks = (parameter.count + kStateBlock - 1) / kStateBlock;
  for (int s = 0; state == StateType::k8Bit && s < states; ++s) {
    records.push_back({std::string(kStateSuffixes[s]) + ".scale", DType::kF32, blocks});
  }
  return records;
}

}  // namespace sluice::optim
