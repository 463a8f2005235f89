#include "base/status.h"
#include "bench/store/store_bench.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_runner.h"

namespace sluice::tools {
namespace {

constexpr char kStoreAbout[] =
    "Measures the page store, checksums on, against fio: the same directory, size, block size\n"
    "and depth, buffers of both on huge pages (reserved for the time, which takes root; else\n"
    "a plain io_uring loop takes the place of fio). Takes 25 minutes and 2 GiB of disk\n"
    "on an otherwise idle machine, and leaves nothing behind unless it is killed "
    "(docs/benchmarks.md).\n";

std::vector<FlagSpec> StoreFlagSpecs() {
  return {
      DirectoryFlag(),
      {"--quick", FlagShape::kSwitch, "", "a third of the time: 3 rounds instead of 11"},
      {"--size", FlagShape::kValue, "BYTES", "of the files, which both sides share (default 2GiB)"},
      {"--milliseconds", FlagShape::kValue, "N", "length of each run (default 1000)"},
      FioFlag()};
}

absl::StatusOr<std::string> MeasureStore(const BenchRun& run) {
  bench::StoreBenchOptions options{.rounds = run.rounds,
                                   .pattern = run.pattern,
                                   .interrupted = run.interrupted,
                                   .progress = run.progress,
                                   .warn = run.warn};
  SLUICE_ASSIGN_OR_RETURN(options.directory, ReadDirectory(run.arguments));
  SLUICE_RETURN_IF_ERROR(
      ReadNumber(run.arguments, "--milliseconds", kBenchNumbers, &options.milliseconds));
  SLUICE_RETURN_IF_ERROR(ReadBytes(run.arguments, "--size", &options.file_bytes));
  options.fio = run.arguments.Value("--fio", options.fio);
  SLUICE_RETURN_IF_ERROR(bench::RunStoreBench(options, run.add_row));
  return std::string();
}

}  // namespace

int RunBenchStore(std::span<const std::string> words) {
  return RunBenchmark({.name = "store",
                       .usage = "--dir DIR [FLAG ...]",
                       .about = kStoreAbout,
                       .flags = StoreFlagSpecs(),
                       .rounds = bench::StoreBenchOptions().rounds,
                       .quick_rounds = 3,
                       .measure = MeasureStore},
                      words);
}

}  // namespace sluice::tools
