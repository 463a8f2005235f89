#include <array>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/store_bench.h"
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

constexpr int kStoreQuickRounds = 3;

const std::vector<FlagSpec>& StoreFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"--dir", FlagShape::kValue, "DIR", "a directory on the disk to measure; required"},
      {"--quick", FlagShape::kSwitch, "", "a third of the time: 3 rounds instead of 11"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per row, one per line"},
      {"--case",
       FlagShape::kValue,
       "PATTERN",
       "only rows with this in their name; *, ? and [] match"},
      {"--size", FlagShape::kValue, "BYTES", "of the files, which both sides share (default 2GiB)"},
      {"--rounds", FlagShape::kValue, "N", "rounds of each case (default 11)"},
      {"--milliseconds", FlagShape::kValue, "N", "length of each run (default 1000)"},
      {"--fio", FlagShape::kValue, "PROGRAM", "the fio to run (default: the one in PATH)"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

std::string StoreHelpText() {
  return "Usage: sluice bench store --dir DIR [FLAG ...]\n\n"
         "Measures the page store, checksums on, against fio: the same directory, size, block "
         "size\n"
         "and depth, buffers of both on huge pages (reserved for the time, which takes root; else\n"
         "a plain io_uring loop takes the place of fio). Takes 25 minutes and 2 GiB of disk\n"
         "on an otherwise idle machine, and leaves nothing behind unless it is killed "
         "(docs/benchmarks.md).\n\n" +
         DescribeFlags(StoreFlagSpecs());
}

struct StoreFlags {
  bench::StoreBenchOptions options;
  bool json = false;
};

absl::StatusOr<StoreFlags> ReadStoreFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, StoreFlagSpecs()));
  StoreFlags flags;
  flags.options.directory = arguments.Value("--dir");
  if (flags.options.directory.empty()) {
    return absl::InvalidArgumentError(
        "--dir DIR is required; name a directory of your own on the disk to measure");
  }
  flags.json = arguments.Has("--json");
  if (arguments.Has("--quick")) flags.options.rounds = kStoreQuickRounds;
  SLUICE_RETURN_IF_ERROR(ReadNumber(arguments, "--rounds", kBenchNumbers, &flags.options.rounds));
  SLUICE_RETURN_IF_ERROR(
      ReadNumber(arguments, "--milliseconds", kBenchNumbers, &flags.options.milliseconds));
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--size", &flags.options.file_bytes));
  flags.options.pattern = arguments.Value("--case");
  if (arguments.Has("--case") && flags.options.pattern.empty()) {
    return absl::InvalidArgumentError("--case names no row; leave it out to measure all");
  }
  flags.options.fio = arguments.Value("--fio", flags.options.fio);
  return flags;
}

absl::Status Measure(StoreFlags flags, const InterruptWatch& watch) {
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
  RowPrinter printer("store", ReadMachineFacts(flags.options.directory), console);
  absl::Status measured =
      bench::RunStoreBench(flags.options, [&printer](const bench::Row& row) { printer.Add(row); });
  SLUICE_RETURN_IF_ERROR(console.status());
  return measured;
}

}  // namespace

int RunBenchStore(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", StoreHelpText());
    return kExitDone;
  }
  absl::StatusOr<StoreFlags> flags = ReadStoreFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const InterruptWatch watch;
  const absl::Status status = Measure(*std::move(flags), watch);
  if (watch.interrupted()) return kExitSignal + watch.signal();
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace sluice::tools
