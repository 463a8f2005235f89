#include "tools/state/state_metadata.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "fmt/format.h"
#include "io/safetensors/header_events.h"
#include "nlohmann/json.hpp"
#include "runtime/optim/optimizer/rates.h"
#include "runtime/optim/save/shallow_json.h"

namespace sluice::tools {
namespace {

using MetaJson = nlohmann::ordered_json;

constexpr const char* kFormatKey = "sluice.format";
constexpr const char* kOptimizerKey = "sluice.optimizer";
constexpr const char* kStatesKey = "sluice.states";
constexpr const char* kSeedKey = "sluice.seed";
constexpr const char* kStepKey = "sluice.step";
constexpr const char* kGroupsKey = "sluice.groups";
constexpr const char* kNoteKey = "sluice.note";
constexpr const char* kFormat = "1";

struct Rate {
  const char* name;
  double GroupRates::*value;
};
constexpr Rate kRates[] = {{"learning_rate", &GroupRates::learning_rate},
                           {"beta1", &GroupRates::beta1},
                           {"beta2", &GroupRates::beta2},
                           {"eps", &GroupRates::eps},
                           {"weight_decay", &GroupRates::weight_decay}};

template <typename... Args>
absl::Status BadMetadata(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

/// The parameters' names, own steps and tensors, group by group.
MetaJson GroupsJson(const StateDescription& state) {
  MetaJson groups = MetaJson::array();
  std::size_t parameter = 0;
  for (std::size_t g = 0; g < state.layout.groups.size(); ++g) {
    MetaJson rates = MetaJson::object();
    for (const Rate& rate : kRates) rates[rate.name] = state.rates[g].*rate.value;
    MetaJson parameters = MetaJson::array();
    for (const optim::LayoutParameter& each : state.layout.groups[g].parameters) {
      MetaJson json = {{"name", each.name}, {"step", state.steps[parameter]}};
      if (state.keys[parameter] != each.name) json["tensor"] = state.keys[parameter];
      if (state.shapes[parameter].size() != 1) json["shape"] = state.shapes[parameter];
      parameters.push_back(std::move(json));
      ++parameter;
    }
    groups.push_back({{"name", state.layout.groups[g].name},
                      {"rates", std::move(rates)},
                      {"parameters", std::move(parameters)}});
  }
  return groups;
}

/// Reads metadata into a description, and says what is wrong with them.
class MetadataReader {
 public:
  explicit MetadataReader(const io::SafetensorsHeader& header) : metadata_(header.metadata) {
    for (const io::SafetensorsEntry& tensor : header.tensors) tensors_[tensor.name] = &tensor;
  }

  absl::StatusOr<StateDescription> Read() {
    SLUICE_ASSIGN_OR_RETURN(const std::string format, Value(kFormatKey));
    if (format != kFormat) {
      return BadMetadata(
          "\"{}\" is \"{}\" and \"{}\" is known here: import it with the sluice "
          "that exported it",
          kFormatKey,
          format,
          kFormat);
    }
    SLUICE_ASSIGN_OR_RETURN(state_.layout.kind, EnumValue(kOptimizerKey, OptimizerKind::kAdagrad));
    SLUICE_ASSIGN_OR_RETURN(state_.layout.state, EnumValue(kStatesKey, StateType::k8Bit));
    SLUICE_ASSIGN_OR_RETURN(state_.layout.seed,
                            NumberValue(kSeedKey, std::numeric_limits<std::uint64_t>::max()));
    SLUICE_ASSIGN_OR_RETURN(const std::uint64_t step, NumberValue(kStepKey, kStepMax));
    state_.step = static_cast<std::int64_t>(step);
    // A file without a note gives a save with an empty one.
    if (const auto note = metadata_.find(kNoteKey); note != metadata_.end()) {
      state_.note = note->second;
    }
    SLUICE_RETURN_IF_ERROR(ReadGroups());
    return std::move(state_);
  }

 private:
  /// Largest step of a state, so that counting on cannot overflow.
  static constexpr std::uint64_t kStepMax = std::uint64_t{1} << 62;

  absl::StatusOr<std::string> Value(const char* key) const {
    const auto found = metadata_.find(key);
    if (found != metadata_.end()) return found->second;
    return BadMetadata(
        "\"__metadata__\" has no \"{}\": the tool that wrote the file dropped it; "
        "write the metadata of the exported file with the tensors",
        key);
  }

  template <typename Enum>
  absl::StatusOr<Enum> EnumValue(const char* key, Enum last) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string value, Value(key));
    std::string allowed;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      const std::string_view name = ToString(static_cast<Enum>(i));
      if (value == name) return static_cast<Enum>(i);
      allowed += fmt::format("{}{}", i == 0 ? "" : ", ", name);
    }
    return BadMetadata("\"{}\" is {}; allowed are {}", key, io::ShownName(value), allowed);
  }

  absl::StatusOr<std::uint64_t> NumberValue(const char* key, std::uint64_t most) const {
    SLUICE_ASSIGN_OR_RETURN(const std::string value, Value(key));
    std::uint64_t number = 0;
    if (absl::SimpleAtoi(value, &number) && number <= most) return number;
    return BadMetadata("\"{}\" is {}; allowed are 0 to {}", key, io::ShownName(value), most);
  }

  absl::Status ReadGroups() {
    SLUICE_ASSIGN_OR_RETURN(const std::string text, Value(kGroupsKey));
    const nlohmann::json groups = optim::ParseShallowJson(text);
    if (!groups.is_array()) return BadMetadata("\"{}\" is no JSON list", kGroupsKey);
    for (const nlohmann::json& group : groups) SLUICE_RETURN_IF_ERROR(ReadGroup(group));
    return absl::OkStatus();
  }

  absl::Status ReadGroup(const nlohmann::json& json) {
    const std::string where = fmt::format("group {} of \"{}\"", state_.rates.size(), kGroupsKey);
    if (!json.contains("name") || !json["name"].is_string()) {
      return BadMetadata("{} has no \"name\"", where);
    }
    optim::LayoutGroup group{.name = json["name"].get<std::string>(), .parameters = {}};
    SLUICE_RETURN_IF_ERROR(ReadRates(json, where));
    SLUICE_RETURN_IF_ERROR(optim::CheckRates(group.name, state_.rates.back()));
    if (!json.contains("parameters") || !json["parameters"].is_array()) {
      return BadMetadata("{} has no list \"parameters\"", where);
    }
    for (const nlohmann::json& each : json["parameters"]) {
      SLUICE_ASSIGN_OR_RETURN(optim::LayoutParameter parameter, ReadParameter(each, where));
      group.parameters.push_back(std::move(parameter));
    }
    state_.layout.groups.push_back(std::move(group));
    return absl::OkStatus();
  }

  absl::Status ReadRates(const nlohmann::json& json, const std::string& where) {
    GroupRates& rates = state_.rates.emplace_back();
    for (const Rate& rate : kRates) {
      const bool there = json.contains("rates") && json["rates"].contains(rate.name) &&
                         json["rates"][rate.name].is_number();
      if (!there) return BadMetadata("{} has no number \"rates\".\"{}\"", where, rate.name);
      rates.*rate.value = json["rates"][rate.name].get<double>();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<optim::LayoutParameter> ReadParameter(const nlohmann::json& json,
                                                       const std::string& where) {
    if (!json.contains("name") || !json["name"].is_string()) {
      return BadMetadata("a parameter of {} has no \"name\"", where);
    }
    const auto name = json["name"].get<std::string>();
    const bool steps = json.contains("step") && json["step"].is_number_unsigned() &&
                       json["step"].get<std::uint64_t>() <= kStepMax;
    if (!steps) {
      return BadMetadata("the \"step\" of parameter {} in \"{}\" is none of 0 to {}",
                         io::ShownName(name),
                         kGroupsKey,
                         kStepMax);
    }
    state_.steps.push_back(json["step"].get<std::int64_t>());
    if (json.contains("tensor") && !json["tensor"].is_string()) {
      return BadMetadata("the \"tensor\" of parameter {} is no name", io::ShownName(name));
    }
    state_.keys.push_back(json.contains("tensor") ? json["tensor"].get<std::string>() : name);
    SLUICE_ASSIGN_OR_RETURN(optim::LayoutParameter parameter,
                            FindParameter(name, state_.keys.back()));
    SLUICE_RETURN_IF_ERROR(ReadShape(json, parameter));
    return parameter;
  }

  /// Reads the parameter's shape, which may differ from that of the tensor in the file. A parameter
  /// without a shape is flat.
  absl::Status ReadShape(const nlohmann::json& json, const optim::LayoutParameter& parameter) {
    optim::SavedShape& shape = state_.shapes.emplace_back();
    const auto found = json.find("shape");
    bool good = true;
    if (found == json.end()) {
      shape = {static_cast<std::int64_t>(parameter.count)};
      return absl::OkStatus();
    }
    for (const nlohmann::json& length : *found) {
      good = good && length.is_number_integer();
      if (good) shape.push_back(length.get<std::int64_t>());
    }
    if (good && found->is_array() && optim::HasElements(shape, parameter.count)) {
      return absl::OkStatus();
    }
    return BadMetadata("the \"shape\" of parameter {} in \"{}\" is none of the {} elements of {}",
                       io::ShownName(parameter.name),
                       kGroupsKey,
                       parameter.count,
                       io::ShownName(state_.keys.back()));
  }

  absl::StatusOr<optim::LayoutParameter> FindParameter(const std::string& name,
                                                       const std::string& key) {
    const std::string shown = io::ShownName(key);
    const auto found = tensors_.find(key);
    if (found == tensors_.end()) {
      return BadMetadata(
          "tensor {} is missing: add it, or leave its parameter out of \"{}\"", shown, kGroupsKey);
    }
    if (!used_.insert(key).second) {
      return BadMetadata("tensor {} belongs to two parameters of \"{}\"", shown, kGroupsKey);
    }
    const io::SafetensorsEntry& tensor = *found->second;
    if (tensor.type->dtype != DType::kF32 && tensor.type->dtype != DType::kBF16) {
      return BadMetadata(
          "tensor {} is {}; parameters are F32 or BF16: convert it", shown, tensor.type->name);
    }
    if (tensor.count() == 0) return BadMetadata("tensor {} has no elements", shown);
    return optim::LayoutParameter{.name = name,
                                  .type = tensor.type->dtype == DType::kF32
                                              ? optim::ParameterType::kFp32
                                              : optim::ParameterType::kBf16,
                                  .count = tensor.count()};
  }

  const std::map<std::string, std::string>& metadata_;
  std::map<std::string, const io::SafetensorsEntry*> tensors_;
  std::set<std::string> used_;  ///< tensors that are a parameter
  StateDescription state_;
};

}  // namespace

std::map<std::string, std::string> MetadataOf(const StateDescription& state) {
  const optim::SaveLayout& layout = state.layout;
  std::map<std::string, std::string> metadata = {
      {kFormatKey, kFormat},
      {kOptimizerKey, std::string(ToString(layout.kind))},
      {kStatesKey, std::string(ToString(layout.state))},
      {kSeedKey, std::to_string(layout.seed)},
      {kStepKey, std::to_string(state.step)},
      {kGroupsKey, GroupsJson(state).dump(-1, ' ', false, MetaJson::error_handler_t::replace)},
      {kNoteKey, state.note}};
  for (int s = 0; s < optim::StateCount(layout.kind); ++s) {
    const std::string_view letter = StateLetter(s);
    metadata[fmt::format("sluice.state.{}", letter)] = StateMeaning(layout.kind, s);
    if (layout.state != StateType::k8Bit) continue;
    metadata[fmt::format("sluice.decode.{}", letter)] = fmt::format(
        "element i of NAME.{0} is sluice.code.{0}[NAME.{0}[i]] * "
        "NAME.{0}.scale[i / {1}], rounded to F32",
        letter,
        optim::kStateBlock);
  }
  return metadata;
}

absl::StatusOr<StateDescription> DescribeFile(const io::SafetensorsHeader& header) {
  return MetadataReader(header).Read();
}

}  // namespace sluice::tools
