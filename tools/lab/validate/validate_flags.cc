#include "tools/lab/validate/validate_flags.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/arguments.h"
#include "tools/support/number_flag.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& ValidateFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"--config", FlagShape::kValue, "FILE", "a configuration of `sluice train`; required"},
      {"--text", FlagShape::kList, "FILE", "what to train on; default: this project's own files"},
      {"--set", FlagShape::kRepeated, "KEY=VALUE", "overrides a key of the configuration"},
      {"--budgets", FlagShape::kValue, "PERCENT,...", "of hbm and dram (50,75,100)"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per line, one per budget"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

absl::StatusOr<std::vector<int>> ReadPercents(const Arguments& arguments) {
  std::vector<int> percents;
  for (const std::string& text :
       std::vector<std::string>(absl::StrSplit(arguments.Value("--budgets", "50,75,100"), ','))) {
    const absl::StatusOr<int> read = ParseNumber("--budgets", text, {1, 1000});
    if (!read.ok()) {
      const std::string why(read.status().message());
      return absl::InvalidArgumentError(why + "; give percents, as 50,75,100");
    }
    const int percent = *read;
    if (std::find(percents.begin(), percents.end(), percent) != percents.end()) {
      return absl::InvalidArgumentError(fmt::format("--budgets: {} is named twice", percent));
    }
    percents.push_back(percent);
  }
  return percents;
}

/// The words for `sluice train` itself.
std::vector<std::string> TrainWords(const Arguments& arguments) {
  std::vector<std::string> words;
  if (arguments.Has("--config")) words = {"--config", arguments.Value("--config")};
  for (const std::string& text : arguments.Values("--set")) {
    words.insert(words.end(), {"--set", text});
  }
  if (!arguments.Has("--text")) return words;
  words.emplace_back("--text");
  for (const std::string& text : arguments.Values("--text")) words.push_back(text);
  return words;
}

Bytes Part(Bytes whole, int percent, Bytes page) {
  const std::uint64_t pages =
      whole.count() / page.count() * static_cast<std::uint64_t>(percent) / 100;
  return Bytes(pages * page.count());
}

}  // namespace

absl::StatusOr<ValidateFlags> ReadValidateFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, ValidateFlagSpecs()));
  ValidateFlags flags;
  SLUICE_ASSIGN_OR_RETURN(flags.percents, ReadPercents(arguments));
  SLUICE_ASSIGN_OR_RETURN(flags.train, ReadTrainFlags(TrainWords(arguments)));
  if (arguments.Has("--json")) flags.mode = Console::Mode::kJson;
  return flags;
}

std::string ValidateHelpText() {
  return "Usage: sluice lab validate --config FILE [FLAG ...]\n\n"
         "Trains, records the schedule, simulates it with the tiers, the policy and the link\n"
         "speeds that were measured, and says how far the predicted step is from the real "
         "one.\n\n" +
         DescribeFlags(ValidateFlagSpecs());
}

TrainFlags WithBudgets(const TrainFlags& train, int percent) {
  TrainFlags scaled = train;
  RuntimeOptions& runtime = scaled.settings.runtime;
  runtime.hbm_bytes = Part(runtime.hbm_bytes, percent, runtime.page_bytes);
  runtime.dram_bytes = Part(runtime.dram_bytes, percent, runtime.page_bytes);
  return scaled;
}

}  // namespace sluice::tools
