#include "tools/train/train_flags.h"

#include <map>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/output_path.h"
#include "tools/read_file.h"

namespace sluice::tools {
namespace {

/// Every output needs a file, and one of its own: two would destroy each other.
absl::Status CheckOutputs(const Arguments& arguments) {
  std::map<std::string, std::string> flags;
  // A file that standard output goes to would be replaced under it.
  const absl::StatusOr<OutputPath> standard = ResolveOutput("/dev/stdout");
  if (standard.ok() && standard->kind == OutputPath::Kind::kFile) {
    flags.emplace(standard->path, "standard output");
  }
  for (const char* const flag : {"--record", "--trace", "--save"}) {
    if (!arguments.Has(flag)) continue;
    const absl::StatusOr<OutputPath> output = ResolveOutput(arguments.Value(flag));
    if (!output.ok()) return base::Annotate(output.status(), flag);
    const auto [other, inserted] = flags.try_emplace(output->path, flag);
    if (inserted) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} and {} name the same file, {}", other->second, flag, output->path));
  }
  return absl::OkStatus();
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
    return absl::InvalidArgumentError(
        "--config FILE is required, for example configs/train-gpt.toml");
  }
  TrainFlags flags;
  flags.config = {.source = arguments.Value("--config"), .assignments = arguments.Values("--set")};
  std::string& text = flags.config.text;
  // Once only: it may be a pipe.
  SLUICE_RETURN_IF_ERROR(
      ReadFile(flags.config.source, [&text](std::string_view piece) { text += piece; }));
  SLUICE_ASSIGN_OR_RETURN(flags.settings, ReadTrainSettings(flags.config));
  if (arguments.Has("--text")) flags.settings.texts = arguments.Values("--text");
  SLUICE_RETURN_IF_ERROR(CheckOutputs(arguments));
  flags.verify = arguments.Has("--verify");
  flags.json = arguments.Has("--json");
  flags.record_path = arguments.Value("--record");
  flags.trace_path = arguments.Value("--trace");
  flags.save_path = arguments.Value("--save");
  return flags;
}

}  // namespace sluice::tools
