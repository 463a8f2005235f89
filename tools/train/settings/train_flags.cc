#include "tools/train/settings/train_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/new_file.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/optim/save/state_file.h"
#include "sluice/config.h"
#include "tools/support/output/output_check.h"
#include "tools/support/read_file.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

absl::Status CheckPaths(const Arguments& arguments, const TrainFlags& flags) {
  std::vector<NamedPath> outputs;
  for (const char* const flag : {"--record", "--trace", "--save"}) {
    if (arguments.Has(flag)) outputs.push_back({flag, arguments.Value(flag)});
  }
  std::vector<NamedPath> inputs = {{"--config", flags.config.source}};
  if (arguments.Has("--init")) inputs.push_back({"--init", arguments.Value("--init")});
  for (const std::string& text : flags.settings.texts) {
    inputs.push_back({flags.texts_name, text == kStandardInput ? "/dev/stdin" : text});
  }
  return CheckOutputs(outputs, inputs);
}

absl::Status CheckDirectory(const char* flag, const std::string& path, int access_mode) {
  if (path.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} is empty; name a directory", flag));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: \"{}\" is not a directory; {}",
        flag,
        path,
        access_mode == W_OK ? "make it first" : "name that of a run with --state or --save-state"));
  }
  if (access(path.c_str(), access_mode) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: {}: {}", flag, path, std::strerror(errno)));
}

/// A file is made as a save makes it, and goes again.
absl::Status CheckTakesSaves(const std::string& path) {
  const auto file = base::NewFile::Create(fmt::format("{}/{}", path, optim::kStateFileName));
  return base::Annotate(file.status(), "--save-state");
}

/// A file replaces a file of the name, but no directory.
absl::Status CheckNoDirectory(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(path, error))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "--save-state: {} is a directory; move it away, or name another directory", path));
}

/// A state that this run does not go on from would be lost.
absl::Status CheckReplacesNoOther(const TrainFlags& flags) {
  const std::string& to = flags.save_state_path;
  std::error_code error;
  if (!std::filesystem::exists(fmt::format("{}/{}", to, optim::kStateFileName), error)) {
    return absl::OkStatus();
  }
  if (!flags.resume_path.empty() && std::filesystem::equivalent(to, flags.resume_path, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("--save-state: {}/{} is there already and would be replaced; go on from it with "
                  "--resume {}, move it away, or name another directory",
                  to,
                  optim::kStateFileName,
                  to));
}

/// A save beside those of --state would hide them: a directory with a save's file has that one
/// alone.
absl::Status CheckHidesNoRun(const std::string& to) {
  const absl::StatusOr<std::vector<FoundSave>> saves = ListSaves(to);
  if (!saves.ok()) return base::Annotate(saves.status(), "--save-state");
  if (saves->empty() || saves->front().step < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--save-state: {} has saves of --state, the newest after step {}, which a save "
                  "beside them would hide; go on with --state {}, or name another directory",
                  to,
                  saves->front().step,
                  to));
}

/// Flags that say where a run begins and ends otherwise than --state does.
absl::Status CheckStateAlone(const Arguments& arguments) {
  for (const char* const flag : {"--save-state", "--resume"}) {
    if (!arguments.Has(flag)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "--state and {}: --state goes on from its directory and saves there; leave one of them out",
        flag));
  }
  if (!arguments.Has("--verify")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--state and --verify: the run in RAM begins at the first step; leave one of them out");
}

absl::Status CheckStateFlags(const Arguments& arguments, const TrainFlags& flags) {
  const bool saves = arguments.Has("--save-state");
  const bool resumes = arguments.Has("--resume");
  const bool has_state = arguments.Has("--state");
  if (has_state) SLUICE_RETURN_IF_ERROR(CheckStateAlone(arguments));
  if (saves) {
    SLUICE_RETURN_IF_ERROR(CheckDirectory("--save-state", flags.save_state_path, W_OK));
    SLUICE_RETURN_IF_ERROR(CheckTakesSaves(flags.save_state_path));
    SLUICE_RETURN_IF_ERROR(
        CheckNoDirectory(fmt::format("{}/{}", flags.save_state_path, optim::kStateFileName)));
    SLUICE_RETURN_IF_ERROR(CheckHidesNoRun(flags.save_state_path));
    SLUICE_RETURN_IF_ERROR(CheckReplacesNoOther(flags));
  }
  if (resumes) SLUICE_RETURN_IF_ERROR(CheckDirectory("--resume", flags.resume_path, R_OK));
  if (resumes && flags.verify) {
    return absl::InvalidArgumentError(
        "--resume and --verify: the run in RAM begins at the first step; leave one of them out");
  }
  if (arguments.Has("--init") && flags.init_path.empty()) {
    return absl::InvalidArgumentError("--init is empty; name a file that --save wrote");
  }
  if (arguments.Has("--init") && resumes) {
    return absl::InvalidArgumentError(
        "--init and --resume: a run begins from weights or goes on from a state, which has weights "
        "of its own; leave one of them out");
  }
  const bool needs_optimizer = saves || resumes || has_state;
  if (needs_optimizer && flags.settings.train.optimizer == gpt::OptimizerChoice::kNone) {
    return absl::InvalidArgumentError(
        "--state, --save-state and --resume need an optimizer; \"train.optimizer\" is \"none\"");
  }
  return absl::OkStatus();
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

/// Reads the configuration, once only, as it may be a pipe.
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
      {"--text",
       FlagShape::kList,
       "FILE",
       "what to train on, \"-\": standard input; default: this project's own files"},
      {"--set", FlagShape::kRepeated, "KEY=VALUE", "overrides a key of the configuration"},
      {"--print-config", FlagShape::kSwitch, "", "prints every key with its value, and ends"},
      {"--verify", FlagShape::kSwitch, "", "compares with the same run in RAM, bit for bit"},
      {"--record", FlagShape::kValue, "FILE", "writes the recorded schedules (JSON lines)"},
      {"--trace", FlagShape::kValue, "FILE", "writes a timeline for Perfetto"},
      {"--save", FlagShape::kValue, "FILE", "writes the model (safetensors)"},
      {"--state",
       FlagShape::kValue,
       "DIR",
       "goes on from the newest save in DIR, or begins, and saves there"},
      {"--save-state",
       FlagShape::kValue,
       "DIR",
       "writes all that --resume needs to one file; DIR exists and has no other run's"},
      {"--resume", FlagShape::kValue, "DIR", "goes on from the newest save in DIR"},
      {"--init", FlagShape::kValue, "FILE", "begins from the weights that --save wrote"},
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
  flags.save_state_path = arguments.Value("--save-state");
  flags.resume_path = arguments.Value("--resume");
  flags.init_path = arguments.Value("--init");
  flags.state_path = arguments.Value("--state");
  if (arguments.Has("--state") && flags.state_path.empty()) {
    return absl::InvalidArgumentError("--state is empty; name a directory");
  }
  SLUICE_RETURN_IF_ERROR(CheckStateFlags(arguments, flags));
  return flags;
}

absl::StatusOr<std::string> WriteConfig(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, TrainFlagSpecs()));
  ConfigText config{.source = "defaults", .assignments = arguments.Values("--set")};
  if (arguments.Has("--config")) {
    config.source = arguments.Value("--config");
    SLUICE_RETURN_IF_ERROR(ReadConfigText(&config));
  }
  return WriteTrainSettings(config);
}

}  // namespace sluice::tools
