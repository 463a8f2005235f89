#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/lab/lab.h"
#include "tools/lab/load_schedule.h"
#include "tools/lab/show/show_report.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/page_flag.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& ShowFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"SCHEDULE",
       FlagShape::kWord,
       "",
       "a file of JSON lines, gzip or not, as `sluice train --record` writes; required"},
      {"--key", FlagShape::kValue, "KEY", "the iteration key (default: that with the most ops)"},
      {"--page",
       FlagShape::kValue,
       "BYTES",
       "count in whole pages of this size: a power of two from 4KiB to 64MiB"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per line"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

std::string HelpText() {
  return "Usage: sluice lab show SCHEDULE [FLAG ...]\n\n"
         "Tells what one iteration asks of a machine: compute time, persistent bytes, peak live\n"
         "bytes and largest working set with the ops that reach them; bytes by kind of tensor,\n"
         "by lane and by group of ops; how much else is touched before bytes are used again.\n\n"
         "A group is all ops whose names differ in numbers only. Digits that a letter follows\n"
         "belong to a word: \"l3.mlp\" and \"l12.mlp\" are \"l*.mlp\", \"Conv2d\" stays.\n\n" +
         DescribeFlags(ShowFlagSpecs());
}

struct ShowFlags {
  std::string path;
  std::optional<std::string> key;
  std::uint64_t page_bytes = 1;
  Console::Mode mode = Console::Mode::kText;
};

absl::StatusOr<ShowFlags> ReadFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, ShowFlagSpecs()));
  ShowFlags flags;
  flags.path = arguments.Value("SCHEDULE");
  if (flags.path.empty()) {
    return absl::InvalidArgumentError(
        "SCHEDULE is required: name a file as `sluice train --record` writes");
  }
  if (arguments.Has("--key")) flags.key = arguments.Value("--key");
  if (arguments.Has("--json")) flags.mode = Console::Mode::kJson;
  SLUICE_ASSIGN_OR_RETURN(flags.page_bytes, ReadPageFlag(arguments, flags.page_bytes));
  return flags;
}

absl::Status Show(const ShowFlags& flags) {
  Console console(flags.mode);
  ShowReport report{.file = flags.path, .page_bytes = flags.page_bytes};
  SLUICE_ASSIGN_OR_RETURN(report.schedule, LoadSchedule(flags.path, flags.key));
  absl::StatusOr<sim::ScheduleFacts> facts =
      sim::FindFacts(report.schedule, {.page_bytes = flags.page_bytes});
  if (!facts.ok()) return base::Annotate(facts.status(), flags.path);
  report.facts = *std::move(facts);
  if (flags.mode == Console::Mode::kJson) {
    console.PrintJson(ToJsonLines(report));
  } else {
    console.Print(ToText(report));
  }
  return console.status();
}

}  // namespace

int RunLabShow(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", HelpText());
    return kExitDone;
  }
  const absl::StatusOr<ShowFlags> flags = ReadFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const absl::Status status = Show(*flags);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
