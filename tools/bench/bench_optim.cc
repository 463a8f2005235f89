#include <cstdint>

#include "base/status.h"
#include "bench/optim/optim_bench.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_runner.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kOptimQuickParameters = std::uint64_t{1} << 24;

constexpr char kOptimAbout[] =
    "Measures the optimizer kernels alone, on memory far larger than the caches and on every\n"
    "processor: OPTIMIZER/PARAMETER/STATE/INSTRUCTIONS/THREADS. In the same rounds and on the\n"
    "same threads a loop moves the same bytes, which is the ceiling; that of 8-bit states is\n"
    "the fp32 kernel. Takes about 5 minutes and 2 GiB of memory.\n";

absl::StatusOr<std::string> MeasureOptim(const BenchRun& run) {
  bench::OptimBenchOptions options{.pattern = run.pattern,
                                   .rounds = run.rounds,
                                   .interrupted = run.interrupted,
                                   .progress = run.progress};
  if (run.arguments.Has("--quick")) options.parameters = kOptimQuickParameters;
  SLUICE_RETURN_IF_ERROR(ReadParameters(run.arguments, &options.parameters));
  SLUICE_RETURN_IF_ERROR(bench::RunOptimBench(options, run.add_row));
  return std::string();
}

}  // namespace

int RunBenchOptim(std::span<const std::string> words) {
  return RunBenchmark(
      {.name = "optim",
       .usage = "[FLAG ...]",
       .about = kOptimAbout,
       .flags =
           {{"--quick", FlagShape::kSwitch, "", "3 rounds instead of 11, of 2^24 parameters"},
            {"--mebiparameters", FlagShape::kValue, "N", "of the tensor, in 2^20 (default 64)"}},
       .rounds = bench::OptimBenchOptions().rounds,
       .quick_rounds = 3,
       .measure = MeasureOptim},
      words);
}

}  // namespace sluice::tools
