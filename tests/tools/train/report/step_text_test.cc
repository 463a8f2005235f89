#include "tools/train/report/step_text.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/support/wrap.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StepRecord Step(int number, double seconds, std::uint64_t bytes) {
  return {.step = number,
          .loss = 2.5635,
          .seconds = seconds,
          .stall_seconds = seconds / 10,
          .links = {{"dram-nvme", {bytes, 2 * bytes}}, {"hbm-dram", {bytes, bytes}}}};
}

TEST(StepTextTest, SaysWhatTheStepDid) {
  EXPECT_EQ(FormatStep(Step(3, 2.251, 1 << 20), 30, std::nullopt),
            "step    3/30  loss 2.5635  2251.0 ms  stall 225.1 ms\n"
            "    dram-nvme 1.00 in 2.00 out MiB  hbm-dram 1.00 in 1.00 out MiB\n");
  EXPECT_THAT(FormatStep(Step(3, 2.251, 1 << 20), 30, 2.5F), HasSubstr("validation loss 2.5000"));
}

TEST(StepTextTest, ANaNHasNoSign) {
  StepRecord step = Step(3, 2.251, 1 << 20);
  step.loss = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(FormatStep(step, 30, -std::numeric_limits<float>::quiet_NaN()),
              AllOf(HasSubstr(" loss nan "), HasSubstr("validation loss nan")));
}

TEST(StepTextTest, NoLineIsWiderThanATerminal) {
  for (const double seconds : {1e-5, 1.0, 86400.0}) {
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{1} << 28, std::uint64_t{1} << 45}) {
      const std::string text = FormatStep(Step(1 << 24, seconds, bytes), 1 << 24, 123456.0F);
      const std::vector<std::string> lines = absl::StrSplit(text, '\n');
      for (const std::string& line : lines) {
        EXPECT_LE(line.size(), kColumns) << line;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::tools
