#include "runtime/optim/save/saved_tensors.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/optimizer/parameter_entry.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/save/shallow_json.h"

namespace sluice::optim {
namespace {

using Json = nlohmann::json;

/// Far from where a size of bytes would run over.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 56;
constexpr const char* kStateSuffixes[] = {".m", ".v"};

/// What the states of every parameter are like.
struct States {
  OptimizerKind kind = OptimizerKind::kAdamW;
  StateType type = StateType::kFp32;
};

absl::Status NoLayout() { return DamagedSave("its layout is not that of a save"); }

/// Null where there is none.
Json MemberOf(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

/// The value up to `last` whose name the json is.
template <typename Enum>
std::optional<Enum> FindNamed(const Json& json, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto value = static_cast<Enum>(i);
    if (json == ToString(value)) return value;
  }
  return std::nullopt;
}

void AddTensor(std::string name,
               std::uint64_t count,
               std::size_t element_bytes,
               std::vector<SavedTensor>* tensors) {
  tensors->push_back({std::move(name), count * element_bytes, kSumElements * element_bytes});
}

absl::Status AddParameter(const Json& json, const States& states, std::vector<SavedTensor>* to) {
  const Json name = MemberOf(json, "name"), count_json = MemberOf(json, "count");
  const auto type = FindNamed(MemberOf(json, "type"), ParameterType::kBf16);
  if (!name.is_string() || !count_json.is_number_unsigned() || !type) return NoLayout();
  const auto count = count_json.get<std::uint64_t>();
  if (count > kCountMax) return NoLayout();
  const auto text = name.get<std::string>();
  AddTensor(text, count, BytesOf(*type), to);
  const int number = StateCount(states.kind);
  for (int s = 0; s < number; ++s) {
    AddTensor(text + kStateSuffixes[s], count, BytesOf(states.type), to);
  }
  if (states.type != StateType::k8Bit) return absl::OkStatus();
  const std::uint64_t blocks = (count + kStateBlock - 1) / kStateBlock;
  for (int s = 0; s < number; ++s) {
    to->push_back({text + kStateSuffixes[s] + ".scale",
                   blocks * sizeof(float),
                   kSumElements / kStateBlock * sizeof(float)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SavedTensor>> TensorsOfLayout(const std::string& layout) {
  const Json json = ParseShallowJson(layout);
  const auto kind = FindNamed(MemberOf(json, "optimizer"), OptimizerKind::kAdagrad);
  const auto type = FindNamed(MemberOf(json, "state"), StateType::k8Bit);
  const Json groups = MemberOf(json, "groups");
  if (!kind || !type || !groups.is_array()) return NoLayout();
  std::vector<SavedTensor> tensors;
  for (const Json& group : groups) {
    const Json parameters = MemberOf(group, "parameters");
    if (!parameters.is_array()) return NoLayout();
    for (const Json& parameter : parameters) {
      SLUICE_RETURN_IF_ERROR(AddParameter(parameter, {*kind, *type}, &tensors));
    }
  }
  return tensors;
}

}  // namespace sluice::optim
