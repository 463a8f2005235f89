// Limits on data and on addresses (`ulimit -d`, `ulimit -v`, as SGE's h_vmem sets): a run that
// cannot fit is refused with the sum, never ended by a signal.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;

class TrainRlimitsTest : public TrainCommandTest {
 protected:
  /// Exit code of two steps under a limit of `mebibytes`. Sets `errors` to the messages.
  int RunUnder(const std::string& flag, int mebibytes, std::string* errors) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(mebibytes) << 20;
    Command command(Words({"--set",
                           "train.steps=2",
                           "--set",
                           "train.compute_threads=" + std::to_string(compute_threads_)}),
                    {.run_by = {"/usr/bin/prlimit", flag + "=" + std::to_string(bytes)}});
    const int code = command.Wait();
    *errors = command.errors();
    return code;
  }

  int compute_threads_ = 2;

  /// Raises the limit from `first` on, until some runs in a row end well. Refusals name `limit`.
  void Climb(const std::string& flag, int first, const std::string& limit) {
    constexpr int kLast = 1200, kStep = 8, kEnough = 6;
    int refused = 0, ended = 0;
    for (int mebibytes = first; ended < kEnough && mebibytes < kLast; mebibytes += kStep) {
      SCOPED_TRACE(flag + " of " + std::to_string(mebibytes) + " MiB");
      std::string errors;
      const int code = RunUnder(flag, mebibytes, &errors);
      ended += code == 0 ? 1 : 0;
      if (code == 0) continue;
      ++refused;
      EXPECT_EQ(code, 2) << errors;
      EXPECT_THAT(errors, HasSubstr(" are available (" + limit));
      EXPECT_EQ(ended, 0) << "a smaller limit was enough";
    }
    EXPECT_GT(refused, 0) << "the limit must be felt";
    EXPECT_EQ(ended, kEnough);
  }
};

TEST_F(TrainRlimitsTest, ALimitOfDataIsRefusedOrEnough) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  Climb("--data", 24, "RLIMIT_DATA (ulimit -d)");
}

/// Products on many threads take memory of their own, of which oneDNN does not say that it lacks.
TEST_F(TrainRlimitsTest, ALimitOfDataIsRefusedOrEnoughForManyThreads) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  compute_threads_ = 8;
  Climb("--data", 184, "RLIMIT_DATA (ulimit -d)");
}

TEST_F(TrainRlimitsTest, ALimitOfAddressesIsRefusedOrEnough) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  Climb("--as", 160, "RLIMIT_AS (ulimit -v)");
}

}  // namespace
}  // namespace sluice::tools
