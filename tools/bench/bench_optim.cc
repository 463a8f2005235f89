#include <vector>

#include "base/status.h"
#include "bench/optim/optim_bench.h"
#include "fmt/format.h"
#include "tools/bench/bench.h"
#include "tools/bench/row_output.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"
#include "tools/support/number_flag.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& OptimFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"--json", FlagShape::kSwitch, "", "one JSON object per row, one per line"},
      {"--case",
       FlagShape::kValue,
       "PATTERN",
       "only rows with this in their name; *, ? and [] match"},
      {"--rounds", FlagShape::kValue, "N", "rounds of each case (default 11)"},
      {"--mebiparameters", FlagShape::kValue, "N", "of the tensor, in 2^20 (default 64)"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

std::string OptimHelpText() {
  return "Usage: sluice bench optim [FLAG ...]\n\n"
         "Measures the optimizer kernels alone, on memory far larger than the caches and on every\n"
         "processor: OPTIMIZER/PARAMETER/STATE/INSTRUCTIONS/THREADS. In the same rounds and on "
         "the\n"
         "same threads a loop moves the same bytes, which is the ceiling; that of 8-bit states is\n"
         "the fp32 kernel. Takes about 5 minutes and 2 GiB of memory.\n\n" +
         DescribeFlags(OptimFlagSpecs());
}

struct OptimFlags {
  bench::OptimBenchOptions options;
  bool json = false;
};

absl::StatusOr<OptimFlags> ReadOptimFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, OptimFlagSpecs()));
  OptimFlags flags;
  flags.json = arguments.Has("--json");
  flags.options.pattern = arguments.Value("--case");
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--rounds", kBenchNumbers, &flags.options.rounds));
  std::uint64_t mebi = flags.options.parameters >> 20;
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--mebiparameters", kBenchNumbers, &mebi));
  flags.options.parameters = mebi << 20;
  return flags;
}

absl::Status Measure(OptimFlags flags, const InterruptWatch& watch) {
  Console console(flags.json ? Console::Mode::kJson : Console::Mode::kText);
  // A lost row ends the run as an interrupt does: nobody reads the results.
  const BrokenPipeIsAnError broken_pipe;
  flags.options.interrupted = [&watch, &console] {
    return watch.interrupted() || !console.status().ok();
  };
  flags.options.progress = [&console](const std::string& line) { console.ShowProgress(line); };
  RowPrinter printer("optim", ReadMachineFacts(""), console);
  absl::Status measured =
      bench::RunOptimBench(flags.options, [&printer](const bench::Row& row) { printer.Add(row); });
  SLUICE_RETURN_IF_ERROR(console.status());
  return measured;
}

}  // namespace

int RunBenchOptim(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", OptimHelpText());
    return kExitDone;
  }
  absl::StatusOr<OptimFlags> flags = ReadOptimFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const InterruptWatch watch;
  const absl::Status status = Measure(*std::move(flags), watch);
  if (watch.interrupted()) return kExitSignal + watch.signal();
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
