#include "runtime/optim/save/save_text.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/optim/optimizer/rates.h"
#include "runtime/optim/save/shallow_json.h"

namespace sluice::optim {
namespace {

using Json = nlohmann::json;

/// Largest step, and largest length of a shape. Counting on from it cannot overflow.
constexpr std::uint64_t kStepMax = std::uint64_t{1} << 62;

Json RatesToJson(const GroupRates& rates) {
  return Json::array(
      {rates.learning_rate, rates.beta1, rates.beta2, rates.eps, rates.weight_decay});
}

/// Five numbers that RatesToJson made; nothing when they are not.
std::optional<GroupRates> RatesFromJson(const Json& json) {
  if (!json.is_array() || json.size() != 5) return std::nullopt;
  double values[5];
  for (std::size_t i = 0; i < 5; ++i) {
    if (!json[i].is_number()) return std::nullopt;
    values[i] = json[i].get<double>();
  }
  return GroupRates{values[0], values[1], values[2], values[3], values[4]};
}

/// The value of a key, if it has the type; nothing without.
template <typename Is>
const Json* Find(const Json& object, const char* key, Is is) {
  const auto found = object.find(key);
  return found != object.end() && ((*found).*is)() ? &*found : nullptr;
}

absl::StatusOr<std::vector<GroupRates>> ParseRates(const Json& list) {
  std::vector<GroupRates> rates;
  for (const Json& of_group : list) {
    const std::optional<GroupRates> read = RatesFromJson(of_group);
    if (!read) return DamagedSave("the rates of a group are not five numbers");
    if (!CheckRates("", *read).ok()) return DamagedSave("a group has rates that none may have");
    rates.push_back(*read);
  }
  return rates;
}

/// Steps that parameters have made. States that were loaded from elsewhere bring theirs, so a
/// parameter may have made more than the optimizer.
absl::StatusOr<std::vector<std::int64_t>> ParseSteps(const Json& list) {
  if (!list.is_array()) return DamagedSave("the steps of its parameters are no list");
  std::vector<std::int64_t> steps;
  for (const Json& step : list) {
    if (!step.is_number_unsigned()) {
      return DamagedSave(fmt::format("the steps of parameter {} are no number", steps.size()));
    }
    if (step.get<std::uint64_t>() > kStepMax) {
      return DamagedSave(
          fmt::format("parameter {} has made {} steps", steps.size(), step.get<std::uint64_t>()));
    }
    steps.push_back(step.get<std::int64_t>());
  }
  return steps;
}

absl::StatusOr<SavedShape> ParseShape(const Json& list, std::size_t parameter) {
  SavedShape shape;
  for (const Json& length : list) {
    const bool good = length.is_number_unsigned() && length.get<std::uint64_t>() <= kStepMax;
    if (!good) return DamagedSave(fmt::format("the shape of parameter {} is none", parameter));
    shape.push_back(length.get<std::int64_t>());
  }
  return shape;
}

absl::StatusOr<std::vector<SavedShape>> ParseShapes(const Json& list) {
  std::vector<SavedShape> shapes;
  if (!list.is_array()) return DamagedSave("the shapes of its parameters are no list");
  for (const Json& each : list) {
    if (!each.is_array()) {
      return DamagedSave(fmt::format("the shape of parameter {} is none", shapes.size()));
    }
    SLUICE_ASSIGN_OR_RETURN(SavedShape shape, ParseShape(each, shapes.size()));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

bool AllFlat(const std::vector<SavedShape>& shapes) {
  return std::all_of(
      shapes.begin(), shapes.end(), [](const SavedShape& shape) { return shape.size() == 1; });
}

absl::StatusOr<std::vector<std::uint64_t>> ParseHashes(const Json& list) {
  std::vector<std::uint64_t> hashes;
  for (const Json& hash : list) {
    if (!hash.is_number_unsigned()) return DamagedSave("a checksum is no number");
    hashes.push_back(hash.get<std::uint64_t>());
  }
  return hashes;
}

}  // namespace

absl::Status DamagedSave(std::string_view what) {
  return absl::DataLossError(
      base::ToAbsl(fmt::format("{}: {}; use another save", kStateFileName, what)));
}

std::string WriteSaveText(const SaveText& save) {
  Json rates = Json::array();
  for (const GroupRates& of_group : save.rates) rates.push_back(RatesToJson(of_group));
  Json text = {{"layout", save.layout},
               {"step", save.step},
               {"note", save.note},
               {"rates", std::move(rates)},
               {"hashes", save.hashes}};
  if (save.steps) text["steps"] = *save.steps;
  if (!AllFlat(save.shapes)) text["shapes"] = save.shapes;
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<SaveText> ParseSaveText(std::string_view text) {
  const Json json = ParseShallowJson(text);
  if (!json.is_object()) return DamagedSave("its description is not that of a save");
  const Json* const layout = Find(json, "layout", &Json::is_string);
  const Json* const step = Find(json, "step", &Json::is_number_unsigned);
  const Json* const note = Find(json, "note", &Json::is_string);
  const Json* const rates = Find(json, "rates", &Json::is_array);
  const Json* const hashes = Find(json, "hashes", &Json::is_array);
  if (layout == nullptr || step == nullptr || rates == nullptr || hashes == nullptr ||
      (note == nullptr && json.contains("note")) || step->get<std::uint64_t>() > kStepMax) {
    return DamagedSave("its description is not that of a save");
  }
  SaveText save{.layout = layout->get<std::string>(),
                .step = step->get<std::int64_t>(),
                .note = note == nullptr ? "" : note->get<std::string>()};
  SLUICE_ASSIGN_OR_RETURN(save.rates, ParseRates(*rates));
  if (const auto steps = json.find("steps"); steps != json.end()) {
    SLUICE_ASSIGN_OR_RETURN(save.steps, ParseSteps(*steps));
  }
  if (const auto shapes = json.find("shapes"); shapes != json.end()) {
    SLUICE_ASSIGN_OR_RETURN(save.shapes, ParseShapes(*shapes));
  }
  SLUICE_ASSIGN_OR_RETURN(save.hashes, ParseHashes(*hashes));
  return save;
}

absl::StatusOr<std::vector<std::int64_t>> StepsOf(const SaveText& save, std::size_t parameters) {
  if (!save.steps) return std::vector<std::int64_t>(parameters, save.step);
  if (save.steps->size() == parameters) return *save.steps;
  return DamagedSave(
      fmt::format("it has steps of {} parameters, of {}", save.steps->size(), parameters));
}

bool HasElements(const SavedShape& shape, std::uint64_t count) {
  std::uint64_t product = 1;
  for (const std::int64_t length : shape) {
    if (length < 1 || static_cast<std::uint64_t>(length) > count / product) return false;
    product *= static_cast<std::uint64_t>(length);
  }
  return product == count;
}

absl::StatusOr<std::vector<SavedShape>> ShapesOf(const SaveText& save,
                                                 std::span<const std::uint64_t> counts) {
  std::vector<SavedShape> shapes = save.shapes;
  if (shapes.empty()) {
    for (const std::uint64_t count : counts) shapes.push_back({static_cast<std::int64_t>(count)});
  }
  if (shapes.size() != counts.size()) {
    return DamagedSave(
        fmt::format("it has shapes of {} parameters, of {}", shapes.size(), counts.size()));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (HasElements(shapes[i], counts[i])) continue;
    return DamagedSave(
        fmt::format("the shape of parameter {} is not one of {} elements", i, counts[i]));
  }
  return shapes;
}

absl::StatusOr<std::vector<StateRecord>> PlaceRecords(std::span<const std::uint64_t> hashes,
                                                      std::span<const std::uint64_t> sizes,
                                                      std::uint64_t end) {
  if (hashes.size() != sizes.size()) {
    return DamagedSave("it has not as many checksums as tensors");
  }
  std::vector<StateRecord> records;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (end < sizes[i]) return DamagedSave("its records have not the sizes of the tensors");
    end -= sizes[i];
    records.push_back({end, sizes[i], hashes[i]});
  }
  std::reverse(records.begin(), records.end());
  return records;
}

}  // namespace sluice::optim
