#include "base/status.h"
#include "bench/step/step_bench.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_runner.h"

namespace sluice::tools {
namespace {

constexpr double kStepQuickMinutes = 8;
constexpr std::uint64_t kQuickParameters = std::uint64_t{1} << 26;

constexpr char kStepAbout[] =
    "Measures steps of optimizers whose parameters and states are on nvme, with a budget of\n"
    "dram: OPTIMIZER/PARAMETER/STATE/BUDGET. In the same rounds fio moves bytes of the same\n"
    "mix, which gives the least time for those that do not fit; steps with shares of 25 to\n"
    "75 % in dram are also held to memory, other types to our own fp32 step. At last samples\n"
    "of the parameters are compared with the kernel in plain memory. Takes up to 30 minutes,\n"
    "9 GiB of disk and 6 GiB of memory, and leaves nothing behind.\n";

std::vector<FlagSpec> StepFlagSpecs() {
  return {DirectoryFlag(),
          {"--quick", FlagShape::kSwitch, "", "3 rounds instead of 11, of 2^26 parameters"},
          {"--mebiparameters", FlagShape::kValue, "N", "parameters, in 2^20 (default 256)"},
          {"--size", FlagShape::kValue, "BYTES", "of the files of fio (default 2GiB)"},
          {"--milliseconds", FlagShape::kValue, "N", "length of each run of fio (default 1000)"},
          {"--policy", FlagShape::kValue, "NAME", "of the runtime (default planned)"},
          FioFlag()};
}

absl::Status ReadStepFlags(const Arguments& arguments, bench::StepBenchOptions* options) {
  SLUICE_ASSIGN_OR_RETURN(options->directory, ReadDirectory(arguments));
  if (arguments.Has("--quick")) {
    options->minutes_max = kStepQuickMinutes;
    options->parameters = kQuickParameters;
  }
  SLUICE_RETURN_IF_ERROR(ReadParameters(arguments, &options->parameters));
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--size", &options->fio_bytes));
  options->policy = arguments.Value("--policy", options->policy);
  options->fio = arguments.Value("--fio", options->fio);
  return ReadNumber(arguments, "--milliseconds", kBenchNumbers, &options->milliseconds);
}

absl::StatusOr<std::string> MeasureStep(const BenchRun& run) {
  bench::StepBenchOptions options{.pattern = run.pattern,
                                  .rounds = run.rounds,
                                  .interrupted = run.interrupted,
                                  .progress = run.progress,
                                  .warn = run.warn};
  SLUICE_RETURN_IF_ERROR(ReadStepFlags(run.arguments, &options));
  return bench::RunStepBench(options, run.add_row);
}

}  // namespace

int RunBenchStep(std::span<const std::string> words) {
  return RunBenchmark({.name = "step",
                       .usage = "--dir DIR [FLAG ...]",
                       .about = kStepAbout,
                       .flags = StepFlagSpecs(),
                       .rounds = bench::StepBenchOptions().rounds,
                       .quick_rounds = 3,
                       .measure = MeasureStep},
                      words);
}

}  // namespace sluice::tools
