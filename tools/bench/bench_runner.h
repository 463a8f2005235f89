#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/store/row.h"
#include "tools/support/arguments.h"
#include "tools/support/number_flag.h"

namespace sluice::tools {

/// The numbers that flags of benchmarks take.
inline constexpr NumberRange kBenchNumbers{1, 1'000'000};

/// One run of a benchmark: its flags, and functions for its options.
struct BenchRun {
  const Arguments& arguments;
  int rounds = 0;       ///< rounds of each case
  std::string pattern;  ///< pattern of the cases; empty: all
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> progress;
  std::function<void(const std::string&)> warn;
  bench::RowFn add_row;
};

/// A sub-command of `sluice bench`. Each has --rounds, --json, --case and --help.
struct Benchmark {
  const char* name = "";        ///< "store"
  const char* usage = "";       ///< flags of the synopsis: "--dir DIR [FLAG ...]"
  const char* about = "";       ///< text of the help, with its newlines
  std::vector<FlagSpec> flags;  ///< flags of its own
  int rounds = 0;               ///< rounds without --rounds
  int quick_rounds = 0;         ///< rounds with --quick, which is a flag of its own

  /// Function that reads the flags of its own and measures. Returns the difference that it found,
  /// or nothing.
  absl::StatusOr<std::string> (*measure)(const BenchRun& run) = nullptr;
};

/// Prints help, or runs the benchmark and prints its rows. Returns the exit code.
int RunBenchmark(const Benchmark& benchmark, std::span<const std::string> words);

/// Flags of the benchmarks that measure a disk beside fio.
FlagSpec DirectoryFlag();
FlagSpec FioFlag();

/// The value of DirectoryFlag. Errors: InvalidArgument (none is given).
absl::StatusOr<std::string> ReadDirectory(const Arguments& arguments);

/// Reads --mebiparameters into a number of parameters, which stays as it is without the flag.
/// Errors: those of ReadNumber.
absl::Status ReadParameters(const Arguments& arguments, std::uint64_t* parameters);

}  // namespace sluice::tools
