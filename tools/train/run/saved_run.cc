#include "tools/train/run/saved_run.h"

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

/// Keys and values, as --set takes them.
using Facts = std::vector<std::pair<std::string, std::string>>;

Facts FactsOf(const TrainSettings& settings, const std::string& text_hash) {
  const gpt::ModelConfig& model = settings.model;
  const gpt::TrainConfig& train = settings.train;
  return {{"model.layers", std::to_string(model.layers)},
          {"model.heads", std::to_string(model.heads)},
          {"model.width", std::to_string(model.width)},
          {"model.context", std::to_string(model.context)},
          {"train.states", std::string(ToString(train.states))},
          {"train.seed", std::to_string(train.seed)},
          {"train.batch", std::to_string(train.batch)},
          {"train.micro_batches", std::to_string(train.micro_batches)},
          {"train.val_fraction", fmt::format("{}", train.val_fraction)},
          {kTextKey, text_hash}};
}

/// What differs, and the flags that would make it the same.
struct Differences {
  std::vector<std::string> what;
  std::vector<std::string> fixes;
};

Differences FindDifferences(const NoteJson& saved, const Facts& facts) {
  Differences found;
  for (const auto& [key, here] : facts) {
    const auto at = saved.find(key);
    if (at == saved.end() || !at->is_string()) {
      found.what.push_back(fmt::format("it does not say its \"{}\"", key));
      continue;
    }
    const std::string there = at->get<std::string>();
    if (there == here) continue;
    if (key == kTextKey) {
      found.what.push_back(
          fmt::format("the text's xxh3 is {} in the save and {} here", there, here));
      found.fixes.push_back("the same --text");
      continue;
    }
    found.what.push_back(fmt::format("\"{}\" is {} in the save and {} here", key, there, here));
    found.fixes.push_back(fmt::format("--set {}={}", key, there));
  }
  return found;
}

absl::Status AnotherRun(const std::string& directory, const Differences& found) {
  const std::string fixes =
      found.fixes.empty() ? "" : fmt::format("go on with {}, or ", fmt::join(found.fixes, " "));
  return absl::InvalidArgumentError(
      fmt::format("{} holds another run: {}; {}begin anew without "
                  "--resume",
                  directory,
                  fmt::join(found.what, "; "),
                  fixes));
}

}  // namespace

std::string DescribeRun(const TrainSettings& settings, const std::string& text_hash) {
  NoteJson note = NoteJson::object();
  for (const auto& [key, value] : FactsOf(settings, text_hash)) note[key] = value;
  return note.dump();
}

absl::StatusOr<int> CheckSavedRun(const std::string& directory,
                                  const TrainSettings& settings,
                                  const std::string& text_hash) {
  SLUICE_ASSIGN_OR_RETURN(const OptimizerSave save, OffloadedOptimizer::ReadSave(directory));
  const NoteJson note = NoteJson::parse(save.note, nullptr, false);
  if (!note.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("the save in {} does not say of which run it is; name the directory of a run "
                    "with --save-state",
                    directory));
  }
  const Differences found = FindDifferences(note, FactsOf(settings, text_hash));
  if (!found.what.empty()) return AnotherRun(directory, found);
  const int steps = settings.train.steps;
  if (save.step < steps) return static_cast<int>(save.step);
  return absl::InvalidArgumentError(fmt::format(
      "{} steps are done already, and \"train.steps\" is {}; raise it", save.step, steps));
}

}  // namespace sluice::tools
