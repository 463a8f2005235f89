#include "bench/store/system/child_output.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

std::vector<std::string> Shell(const std::string& script) { return {"sh", "-c", script}; }

TEST(ChildOutputTest, BothStreamsAndTheExitCode) {
  const auto words = Shell("echo one; echo two >&2; exit 7");
  const absl::StatusOr<ChildOutput> output = RunChild({.words = words});
  ASSERT_THAT(output, testing::IsOk());
  EXPECT_EQ(output->exit_code, 7);
  EXPECT_EQ(output->text, "one\ntwo\n");
}

TEST(ChildOutputTest, ASignalIsAnExitCode) {
  const auto words = Shell("kill -TERM $$");
  const absl::StatusOr<ChildOutput> output = RunChild({.words = words});
  ASSERT_THAT(output, testing::IsOk());
  EXPECT_EQ(output->exit_code, 128 + 15);
}

TEST(ChildOutputTest, NoSuchProgramIsNotFound) {
  const std::vector<std::string> words = {"program-that-nobody-has"};
  EXPECT_THAT(RunChild({.words = words}), testing::HasCode(absl::StatusCode::kNotFound));
}

TEST(ChildOutputTest, AnInterruptEndsTheWholeGroup) {
  const auto words = Shell("sleep 1000 & sleep 1000");
  const auto output = RunChild({.words = words, .interrupted = [] { return true; }});
  EXPECT_THAT(output, testing::HasCode(absl::StatusCode::kCancelled));
}

TEST(ChildOutputTest, AChildThatNeverEndsIsEnded) {
  const auto words = Shell("sleep 1000 & sleep 1000");
  const auto output = RunChild({.words = words, .seconds_max = 0.1});
  EXPECT_THAT(
      output,
      testing::IsStatus(absl::StatusCode::kDeadlineExceeded, "sh had not ended after 0.1 seconds"));
}

TEST(ChildOutputTest, AChildThatClosesItsOutputAndGoesOnIsEnded) {
  const auto words = Shell("exec >&- 2>&-; sleep 1000");
  const auto output = RunChild({.words = words, .seconds_max = 0.1});
  EXPECT_THAT(output, testing::HasCode(absl::StatusCode::kDeadlineExceeded));
}

}  // namespace
}  // namespace sluice::bench
