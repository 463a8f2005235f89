#include <vector>

#include "base/status.h"
#include "bench/step/step_bench.h"
#include "fmt/format.h"
#include "sluice/events.h"
#include "tools/bench/bench.h"
#include "tools/bench/row_output.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"
#include "tools/support/number_flag.h"

namespace sluice::tools {
namespace {

constexpr int kStepQuickRounds = 3;
constexpr double kStepQuickMinutes = 8;
constexpr std::uint64_t kQuickParameters = std::uint64_t{1} << 26;

const std::vector<FlagSpec>& StepFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"--dir", FlagShape::kValue, "DIR", "a directory on the disk to measure; required"},
      {"--quick", FlagShape::kSwitch, "", "3 rounds instead of 11, of 2^26 parameters"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per row, one per line"},
      {"--case",
       FlagShape::kValue,
       "PATTERN",
       "only rows with this in their name; *, ? and [] match"},
      {"--rounds", FlagShape::kValue, "N", "rounds of each case (default 11)"},
      {"--mebiparameters", FlagShape::kValue, "N", "parameters, in 2^20 (default 256)"},
      {"--size", FlagShape::kValue, "BYTES", "of the files of fio (default 2GiB)"},
      {"--milliseconds", FlagShape::kValue, "N", "length of each run of fio (default 1000)"},
      {"--policy", FlagShape::kValue, "NAME", "of the runtime (default planned)"},
      {"--fio", FlagShape::kValue, "PROGRAM", "the fio to run (default: the one in PATH)"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

std::string StepHelpText() {
  return "Usage: sluice bench step --dir DIR [FLAG ...]\n\n"
         "Measures steps of optimizers whose parameters and states are on nvme, with a budget of\n"
         "dram: OPTIMIZER/PARAMETER/STATE/BUDGET. In the same rounds fio moves bytes of the same\n"
         "mix, which gives the least time for those that do not fit; steps with shares of 25 to\n"
         "75 % in dram are also held to memory, other types to our own fp32 step. At last samples\n"
         "of the parameters are compared with the kernel in plain memory. Takes up to 30 minutes,\n"
         "9 GiB of disk and 6 GiB of memory, and leaves nothing behind.\n\n" +
         DescribeFlags(StepFlagSpecs());
}

struct StepFlags {
  bench::StepBenchOptions options;
  bool json = false;
};

absl::Status ReadSize(const Arguments& arguments, bench::StepBenchOptions* options) {
  if (arguments.Has("--quick")) {
    options->rounds = kStepQuickRounds;
    options->minutes_max = kStepQuickMinutes;
    options->parameters = kQuickParameters;
  }
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--rounds", kBenchNumbers, &options->rounds));
  std::uint64_t mebi = options->parameters >> 20;
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--mebiparameters", kBenchNumbers, &mebi));
  options->parameters = mebi << 20;
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--size", &options->fio_bytes));
  return ReadNumber(arguments, "--milliseconds", kBenchNumbers, &options->milliseconds);
}

absl::StatusOr<StepFlags> ReadStepFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, StepFlagSpecs()));
  StepFlags flags;
  flags.options.directory = arguments.Value("--dir");
  if (flags.options.directory.empty()) {
    return absl::InvalidArgumentError(
        "--dir DIR is required; name a directory of your own on the disk to measure");
  }
  flags.json = arguments.Has("--json");
  SLUICE_RETURN_IF_ERROR(ReadSize(arguments, &flags.options));
  flags.options.pattern = arguments.Value("--case");
  flags.options.policy = arguments.Value("--policy", flags.options.policy);
  flags.options.fio = arguments.Value("--fio", flags.options.fio);
  return flags;
}

/// Runs the benchmark. The result names the difference from the kernel in plain memory; empty:
/// none.
absl::StatusOr<std::string> Measure(StepFlags flags, const InterruptWatch& watch) {
  Console console(flags.json ? Console::Mode::kJson : Console::Mode::kText);
  // A lost row ends the run as an interrupt does: nobody reads the results, and huge pages are to
  // be given back.
  const BrokenPipeIsAnError broken_pipe;
  flags.options.interrupted = [&watch, &console] {
    return watch.interrupted() || !console.status().ok();
  };
  flags.options.progress = [&console](const std::string& line) { console.ShowProgress(line); };
  flags.options.warn = [&console](const std::string& line) {
    console.Log(LogLevel::kWarning, line);
  };
  RowPrinter printer("step", ReadMachineFacts(flags.options.directory), console);
  absl::StatusOr<std::string> differs =
      bench::RunStepBench(flags.options, [&printer](const bench::Row& row) { printer.Add(row); });
  SLUICE_RETURN_IF_ERROR(console.status());
  return differs;
}

}  // namespace

int RunBenchStep(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", StepHelpText());
    return kExitDone;
  }
  absl::StatusOr<StepFlags> flags = ReadStepFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const InterruptWatch watch;
  const absl::StatusOr<std::string> differs = Measure(*std::move(flags), watch);
  if (watch.interrupted()) return kExitSignal + watch.signal();
  if (!differs.ok()) return Fail(differs.status());
  if (differs->empty()) return kExitDone;
  PrintError(*differs);
  return kExitDiffers;
}

}  // namespace sluice::tools
