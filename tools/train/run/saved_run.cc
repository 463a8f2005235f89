#include "tools/train/run/saved_run.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "sluice/optimizer.h"

namespace sluice::tools {
namespace {

using NoteJson = nlohmann::json;

/// Stands for the text in a note; all others are keys of a configuration.
constexpr const char* kTextKey = "text";

/// Effect of a difference on a run that goes on.
enum class Effect {
  kRefused,   ///< the state cannot be loaded, or means something else
  kOtherwise  ///< the run goes on, with other data than one that never stopped
};

/// A key and its value, as --set takes them.
struct Fact {
  std::string key;
  std::string value;
  Effect effect;
};

std::vector<Fact> FactsOf(const TrainSettings& settings, const std::string& text_hash) {
  const gpt::ModelConfig& model = settings.model;
  const gpt::TrainConfig& train = settings.train;
  return {{"model.layers", std::to_string(model.layers), Effect::kRefused},
          {"model.heads", std::to_string(model.heads), Effect::kRefused},
          {"model.width", std::to_string(model.width), Effect::kRefused},
          {"model.context", std::to_string(model.context), Effect::kRefused},
          {"train.states", std::string(ToString(train.states)), Effect::kRefused},
          // States that are rounded stochastically belong to their seed.
          {"train.seed", std::to_string(train.seed), Effect::kRefused},
          {"train.batch", std::to_string(train.batch), Effect::kOtherwise},
          {"train.micro_batches", std::to_string(train.micro_batches), Effect::kOtherwise},
          {"train.val_fraction", fmt::format("{}", train.val_fraction), Effect::kOtherwise},
          {kTextKey, text_hash, Effect::kOtherwise}};
}

/// Differences of a run from a save, by their effect.
struct Differences {
  std::vector<std::string> refused;
  std::vector<std::string> fixes;  ///< flags that make the refused ones the same
  std::vector<std::string> otherwise;
};

std::string DescribeFact(const Fact& here, const std::string& there) {
  if (here.key == kTextKey) {
    return fmt::format("the text's xxh3 is {} in the save and {} here", there, here.value);
  }
  return fmt::format("\"{}\" is {} in the save and {} here", here.key, there, here.value);
}

Differences FindDifferences(const NoteJson& saved, const std::vector<Fact>& facts) {
  Differences found;
  for (const Fact& here : facts) {
    const auto at = saved.find(here.key);
    if (at == saved.end() || !at->is_string()) {
      found.refused.push_back(fmt::format("it does not say its \"{}\"", here.key));
      continue;
    }
    const std::string there = at->get<std::string>();
    if (there == here.value) continue;
    const bool refused = here.effect == Effect::kRefused;
    (refused ? found.refused : found.otherwise).push_back(DescribeFact(here, there));
    if (refused) found.fixes.push_back(fmt::format("--set {}={}", here.key, there));
  }
  return found;
}

absl::Status AnotherRun(const std::string& directory,
                        const Differences& found,
                        std::string_view begin_anew) {
  const std::string fixes =
      found.fixes.empty() ? "" : fmt::format("go on with {}, or ", fmt::join(found.fixes, " "));
  return absl::InvalidArgumentError(fmt::format("{} holds another run: {}; {}begin anew {}",
                                                directory,
                                                fmt::join(found.refused, "; "),
                                                fixes,
                                                begin_anew));
}

/// Batches are chosen by seed and number alone, so the number goes on with the steps.
std::string GoesOnOtherwise(const Differences& found, int step, const TrainSettings& settings) {
  if (found.otherwise.empty()) return "";
  return fmt::format(
      "{}: the run goes on with micro-batch {} of its own order, and is not bit-identical to one "
      "that never stopped",
      fmt::join(found.otherwise, "; "),
      std::int64_t{step} * settings.train.micro_batches + 1);
}

}  // namespace

std::string DescribeRun(const TrainSettings& settings, const std::string& text_hash) {
  NoteJson note = NoteJson::object();
  for (const Fact& fact : FactsOf(settings, text_hash)) note[fact.key] = fact.value;
  return note.dump();
}

absl::StatusOr<SavedRun> CheckSavedRun(const std::string& directory,
                                       const TrainSettings& settings,
                                       const std::string& text_hash,
                                       std::string_view begin_anew) {
  SLUICE_ASSIGN_OR_RETURN(const OptimizerSave save, OffloadedOptimizer::ReadSave(directory));
  const NoteJson note = NoteJson::parse(save.note, nullptr, false);
  if (!note.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("the save in {} does not say of which run it is; name the directory of a run "
                    "with --state or --save-state",
                    directory));
  }
  if (save.step > std::numeric_limits<int>::max()) {
    return absl::DataLossError(fmt::format("the save in {} says step {}", directory, save.step));
  }
  const Differences found = FindDifferences(note, FactsOf(settings, text_hash));
  if (!found.refused.empty()) return AnotherRun(directory, found, begin_anew);
  const int step = static_cast<int>(save.step);
  return SavedRun{.step = step, .differences = GoesOnOtherwise(found, step, settings)};
}

}  // namespace sluice::tools
