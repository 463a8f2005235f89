#include "tools/bench/bench_runner.h"

#include <signal.h>

#include "gtest/gtest.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {
namespace {

using Measured = absl::StatusOr<std::string>;

int ExitCode(Measured (*measure)(const BenchRun&), const std::vector<std::string>& words) {
  return RunBenchmark({.name = "fake",
                       .flags = {{"--quick", FlagShape::kSwitch, "", "fewer rounds"}},
                       .rounds = 11,
                       .quick_rounds = 3,
                       .measure = measure},
                      words);
}

TEST(BenchRunnerTest, TheExitCodeIsThatOfTheResult) {
  EXPECT_EQ(ExitCode([](const BenchRun&) -> Measured { return ""; }, {}), kExitDone);
  EXPECT_EQ(ExitCode([](const BenchRun&) -> Measured { return "byte 3 differs"; }, {}),
            kExitDiffers);
  EXPECT_EQ(ExitCode([](const BenchRun&) -> Measured { return absl::NotFoundError("fio"); }, {}),
            kExitUserError);
  EXPECT_EQ(ExitCode([](const BenchRun&) -> Measured { return absl::InternalError("disk"); }, {}),
            kExitDeviceFailure);
}

TEST(BenchRunnerTest, ASignalIsTheExitCodeWhateverTheResult) {
  const auto interrupted = [](const BenchRun& run) -> Measured {
    EXPECT_FALSE(run.interrupted());
    raise(SIGINT);
    return run.interrupted() ? "byte 3 differs" : "";
  };
  EXPECT_EQ(ExitCode(interrupted, {}), kExitSignal + SIGINT);
}

TEST(BenchRunnerTest, RoundsAreThoseOfTheFlagElseOfQuick) {
  const auto has = [](int rounds, const std::vector<std::string>& words) {
    const auto count = [](const BenchRun& run) -> Measured {
      return run.arguments.Value("--case") == std::to_string(run.rounds) ? "" : "other rounds";
    };
    std::vector<std::string> all = {"--case", std::to_string(rounds)};
    all.insert(all.end(), words.begin(), words.end());
    return ExitCode(count, all) == kExitDone;
  };
  EXPECT_TRUE(has(11, {}));
  EXPECT_TRUE(has(3, {"--quick"}));
  EXPECT_TRUE(has(7, {"--rounds", "7"}));
  EXPECT_TRUE(has(7, {"--rounds", "7", "--quick"}));
}

TEST(BenchRunnerTest, WrongFlagsMeasureNothing) {
  const auto fails = [](const BenchRun&) -> Measured {
    ADD_FAILURE() << "measured";
    return "";
  };
  for (const std::string word : {"--rounds=0", "--case=", "--json=1", "--other", "stray"}) {
    EXPECT_EQ(ExitCode(fails, {word}), kExitUserError) << word;
  }
}

}  // namespace
}  // namespace sluice::tools
