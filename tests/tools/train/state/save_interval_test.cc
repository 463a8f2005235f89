#include "tools/train/state/save_interval.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using WholeSeconds = std::chrono::seconds;

SaveInterval ParsedInterval(std::string_view text) {
  const absl::StatusOr<SaveInterval> interval = ParseSaveInterval(text);
  EXPECT_TRUE(interval.ok()) << text << ": " << interval.status();
  return interval.value_or(SaveInterval());
}

std::string RefusedInterval(std::string_view text) {
  const absl::StatusOr<SaveInterval> interval = ParseSaveInterval(text);
  EXPECT_EQ(interval.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(interval.status().message());
}

TEST(SaveIntervalTest, StepsAndTimesAreUnderstood) {
  EXPECT_TRUE(ParsedInterval("").none());
  EXPECT_EQ(ParsedInterval("10 steps").steps, 10);
  EXPECT_EQ(ParsedInterval("1 step").steps, 1);
  EXPECT_EQ(ParsedInterval("90 s").time, WholeSeconds(90));
  EXPECT_EQ(ParsedInterval("5 min").time, WholeSeconds(300));
  EXPECT_EQ(ParsedInterval("1000000000 h").time, WholeSeconds(3'600'000'000'000));
  EXPECT_EQ(ParsedInterval("2 h").steps, 0);
}

TEST(SaveIntervalTest, AnythingElseIsRefusedWithWhatIsAllowed) {
  EXPECT_EQ(RefusedInterval("10"),
            "\"train.save_every\" is \"10\": it has no unit; allowed are a whole number, a space, "
            "and \"steps\", \"s\", \"min\" or \"h\", as in \"10 steps\" or \"5 min\"");
  for (const char* unit : {"5min", "5  min", "5 minutes", "5 min ", "5 Min", "1.5 h", "5 "}) {
    EXPECT_THAT(RefusedInterval(unit), HasSubstr("its unit is not known"));
  }
  for (const char* text : {"min", " 5 min", "+5 min", "x"}) {
    EXPECT_THAT(RefusedInterval(text), HasSubstr("it begins with no number"));
  }
  for (const char* text : {"0 steps", "-1 steps"}) {
    EXPECT_THAT(RefusedInterval(text), HasSubstr("the number must be at least 1"));
  }
  for (const char* text : {"1000000001 s", "99999999999999999999 steps"}) {
    EXPECT_THAT(RefusedInterval(text), HasSubstr("the number is above 1000000000"));
  }
}

TEST(SaveClockTest, StepsCountFromTheFirstOfAll) {
  const SaveClock::Time now;
  const SaveClock clock(ParsedInterval("10 steps"), now);
  for (const int step : {10, 20, 120}) EXPECT_TRUE(clock.Due(step, now)) << step;
  for (const int step : {1, 9, 11, 121}) EXPECT_FALSE(clock.Due(step, now)) << step;
}

TEST(SaveClockTest, TimeCountsFromTheLastSave) {
  const SaveClock::Time start;
  SaveClock clock(ParsedInterval("5 min"), start);
  EXPECT_FALSE(clock.Due(10, start + WholeSeconds(299)));
  EXPECT_TRUE(clock.Due(11, start + WholeSeconds(300)));
  clock.OnSave(start + WholeSeconds(310));
  EXPECT_FALSE(clock.Due(12, start + WholeSeconds(609)));
  EXPECT_TRUE(clock.Due(13, start + WholeSeconds(610)));
  EXPECT_FALSE(SaveClock({}, start).Due(10, start + WholeSeconds(1'000'000)));
}

}  // namespace
}  // namespace sluice::tools
