#include "tools/bench/bench_runner.h"

#include <optional>

#include "base/status.h"
#include "fmt/format.h"
#include "sluice/events.h"
#include "tools/bench/row_output.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"

namespace sluice::tools {
namespace {

std::vector<FlagSpec> BenchFlagSpecs(const Benchmark& benchmark) {
  std::vector<FlagSpec> flags = benchmark.flags;
  const std::string rounds = fmt::format("rounds of each case (default {})", benchmark.rounds);
  flags.insert(flags.end(),
               {{"--rounds", FlagShape::kValue, "N", rounds},
                {"--json", FlagShape::kSwitch, "", "one JSON object per row, one per line"},
                {"--case",
                 FlagShape::kValue,
                 "PATTERN",
                 "only rows with this in their name; *, ? and [] match"},
                {"--help", FlagShape::kSwitch, "", "prints this"}});
  return flags;
}

absl::Status ReadSharedFlags(const Benchmark& benchmark, BenchRun* run) {
  const Arguments& arguments = run->arguments;
  run->pattern = arguments.Value("--case");
  if (arguments.Has("--case") && run->pattern.empty()) {
    return absl::InvalidArgumentError("--case names no row; leave it out to measure all");
  }
  run->rounds = arguments.Has("--quick") ? benchmark.quick_rounds : benchmark.rounds;
  return ReadNumber(arguments, "--rounds", kBenchNumbers, &run->rounds);
}

absl::StatusOr<std::string> Measure(const Benchmark& benchmark,
                                    const Arguments& arguments,
                                    const InterruptWatch& watch) {
  Console console(arguments.Has("--json") ? Console::Mode::kJson : Console::Mode::kText);
  BenchRun run{.arguments = arguments};
  SLUICE_RETURN_IF_ERROR(ReadSharedFlags(benchmark, &run));
  // A lost row ends the run as an interrupt does: nobody reads the results, and huge pages are to
  // be given back.
  const BrokenPipeIsAnError broken_pipe;
  run.interrupted = [&] { return watch.interrupted() || !console.status().ok(); };
  run.progress = [&](const std::string& line) { console.ShowProgress(line); };
  run.warn = [&](const std::string& line) { console.Log(LogLevel::kWarning, line); };
  // The facts are read at the first row, as they need a probe file: wrong flags leave the disk
  // alone.
  std::optional<RowPrinter> printer;
  run.add_row = [&](const bench::Row& row) {
    const std::string directory = arguments.Value("--dir");
    if (!printer.has_value()) printer.emplace(benchmark.name, ReadMachineFacts(directory), console);
    printer->Add(row);
  };
  absl::StatusOr<std::string> difference = benchmark.measure(run);
  SLUICE_RETURN_IF_ERROR(console.status());
  return difference;
}

}  // namespace

int RunBenchmark(const Benchmark& benchmark, std::span<const std::string> words) {
  const std::vector<FlagSpec> flags = BenchFlagSpecs(benchmark);
  if (AsksForHelp(words)) {
    fmt::print("Usage: sluice bench {} {}\n\n{}\n{}",
               benchmark.name,
               benchmark.usage,
               benchmark.about,
               DescribeFlags(flags));
    return kExitDone;
  }
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(words, flags);
  if (!arguments.ok()) return Fail(arguments.status());
  const InterruptWatch watch;
  const absl::StatusOr<std::string> difference = Measure(benchmark, *arguments, watch);
  if (watch.interrupted()) return kExitSignal + watch.signal();
  if (!difference.ok()) return Fail(difference.status());
  if (difference->empty()) return kExitDone;
  PrintError(*difference);
  return kExitDiffers;
}

FlagSpec DirectoryFlag() {
  return {"--dir", FlagShape::kValue, "DIR", "a directory on the disk to measure; required"};
}

FlagSpec FioFlag() {
  return {"--fio", FlagShape::kValue, "PROGRAM", "the fio to run (default: the one in PATH)"};
}

absl::StatusOr<std::string> ReadDirectory(const Arguments& arguments) {
  std::string directory = arguments.Value("--dir");
  if (!directory.empty()) return directory;
  return absl::InvalidArgumentError(
      "--dir DIR is required; name a directory of your own on the disk to measure");
}

absl::Status ReadParameters(const Arguments& arguments, std::uint64_t* parameters) {
  std::uint64_t mebi = *parameters >> 20;
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--mebiparameters", kBenchNumbers, &mebi));
  *parameters = mebi << 20;
  return absl::OkStatus();
}

}  // namespace sluice::tools
