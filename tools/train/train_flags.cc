#include "tools/train/train_flags.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sluice/config.h"
#include "tools/output_check.h"
#include "tools/read_file.h"

namespace sluice::tools {
namespace {

absl::Status CheckPaths(const Arguments& arguments, const TrainFlags& flags) {
  std::vector<NamedPath> outputs;
  for (const char* const flag : {"--record", "--trace", "--save"}) {
    if (arguments.Has(flag)) outputs.push_back({flag, arguments.Value(flag)});
  }
  std::vector<NamedPath> inputs = {{"--config", flags.config.source}};
  for (const std::string& text : flags.settings.texts) inputs.push_back({flags.texts_name, text});
  return CheckOutputs(outputs, inputs);
}

constexpr char kConfigWanted[] = "name a TOML file, for example configs/train-gpt.toml";

/// Something that is neither white space nor a comment.
bool HasContent(std::string_view toml) {
  while (!toml.empty()) {
    const std::string_view line = toml.substr(0, toml.find('\n'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#') return true;
    toml.remove_prefix(std::min(line.size() + 1, toml.size()));
  }
  return false;
}

/// Once only: it may be a pipe.
absl::Status ReadConfigText(ConfigText* config) {
  if (config->source.empty()) {
    return absl::InvalidArgumentError(fmt::format("--config is empty; {}", kConfigWanted));
  }
  const auto append = [config](std::string_view piece) {
    config->text += piece;
    return absl::OkStatus();
  };
  const absl::Status read = ReadFile(config->source, Config::kBytesMax, append);
  if (absl::IsNotFound(read)) {
    return absl::NotFoundError(
        fmt::format("--config: {} does not exist; {}", config->source, kConfigWanted));
  }
  SLUICE_RETURN_IF_ERROR(base::Annotate(read, "--config"));
  if (HasContent(config->text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--config: {} is empty; {}", config->source, kConfigWanted));
}

}  // namespace

const std::vector<FlagSpec>& TrainFlagSpecs() {
  static const std::vector<FlagSpec> kSpecs = {
      {"--config", FlagShape::kValue, "FILE", "the configuration (see configs/); required"},
      {"--text", FlagShape::kList, "FILE", "what to train on; default: this project's own files"},
      {"--set", FlagShape::kRepeated, "KEY=VALUE", "overrides a key of the configuration"},
      {"--verify", FlagShape::kSwitch, "", "compares with the same run in RAM, bit for bit"},
      {"--record", FlagShape::kValue, "FILE", "writes the recorded schedules (JSON lines)"},
      {"--trace", FlagShape::kValue, "FILE", "writes a timeline for Perfetto"},
      {"--save", FlagShape::kValue, "FILE", "writes the model (safetensors)"},
      {"--json", FlagShape::kSwitch, "", "standard output is one JSON object"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kSpecs;
}

absl::StatusOr<TrainFlags> ReadTrainFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, TrainFlagSpecs()));
  if (!arguments.Has("--config")) {
    return absl::InvalidArgumentError(fmt::format("--config FILE is required; {}", kConfigWanted));
  }
  TrainFlags flags;
  flags.config = {.source = arguments.Value("--config"), .assignments = arguments.Values("--set")};
  SLUICE_RETURN_IF_ERROR(ReadConfigText(&flags.config));
  SLUICE_ASSIGN_OR_RETURN(flags.settings, ReadTrainSettings(flags.config));
  flags.texts_name = arguments.Has("--text") ? "--text" : "train.texts";
  if (arguments.Has("--text")) flags.settings.texts = arguments.Values("--text");
  SLUICE_RETURN_IF_ERROR(CheckPaths(arguments, flags));
  flags.verify = arguments.Has("--verify");
  flags.json = arguments.Has("--json");
  flags.record_path = arguments.Value("--record");
  flags.trace_path = arguments.Value("--trace");
  flags.save_path = arguments.Value("--save");
  return flags;
}

}  // namespace sluice::tools
