#include "tools/support/number_flag.h"

#include <climits>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::tools {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;

constexpr NumberRange kTwoToNine{2, 9};

Arguments Given(const std::vector<std::string>& words) {
  const std::vector<FlagSpec> specs = {{"--rounds", FlagShape::kValue, "N", "rounds"},
                                       {"--size", FlagShape::kValue, "BYTES", "size"}};
  return *Arguments::Parse(words, specs);
}

auto IsRefused(const std::string& message) {
  return IsStatus(absl::StatusCode::kInvalidArgument, message);
}

TEST(NumberFlagTest, BothEndsOfTheRangeAreTaken) {
  EXPECT_EQ(*ParseNumber("--rounds", "2", kTwoToNine), 2);
  EXPECT_EQ(*ParseNumber("--rounds", "9", kTwoToNine), 9);
  EXPECT_EQ(*ParseNumber("--at", "-2147483648", {INT_MIN, INT_MAX}), INT_MIN);
}

TEST(NumberFlagTest, AnErrorNamesTheFlagTheValueAndTheRange) {
  for (const std::string text :
       {"1", "10", "-3", "3x", "x3", "2.5", "0x3", "3 4", " 3", "+3", "none", "4294967298", ""}) {
    EXPECT_THAT(ParseNumber("--rounds", text, kTwoToNine),
                IsRefused("--rounds: \"" + text + "\" is not a whole number from 2 to 9"));
  }
}

TEST(NumberFlagTest, ANumberIsReadIntoAnyType) {
  int rounds = 5;
  std::uint32_t milliseconds = 5;
  EXPECT_THAT(ReadNumber(Given({"--rounds", "7"}), "--rounds", kTwoToNine, &rounds), IsOk());
  EXPECT_THAT(ReadNumber(Given({"--rounds=8"}), "--rounds", kTwoToNine, &milliseconds), IsOk());
  EXPECT_EQ(rounds, 7);
  EXPECT_EQ(milliseconds, 8U);
}

TEST(NumberFlagTest, WithoutTheFlagOrWithAWrongOneANumberStays) {
  int rounds = 5;
  EXPECT_THAT(ReadNumber(Given({}), "--rounds", kTwoToNine, &rounds), IsOk());
  EXPECT_THAT(ReadNumber(Given({"--rounds=1"}), "--rounds", kTwoToNine, &rounds),
              IsRefused("\"1\" is not a whole number"));
  EXPECT_EQ(rounds, 5);
}

TEST(NumberFlagTest, SizesHaveUnits) {
  std::uint64_t bytes = 5;
  EXPECT_THAT(ReadBytes(Given({}), "--size", &bytes), IsOk());
  EXPECT_EQ(bytes, 5U);
  EXPECT_THAT(ReadBytes(Given({"--size", "big"}), "--size", &bytes),
              IsRefused("--size: \"big\" is not a size"));
  EXPECT_EQ(bytes, 5U);
  EXPECT_THAT(ReadBytes(Given({"--size", "64MiB"}), "--size", &bytes), IsOk());
  EXPECT_EQ(bytes, std::uint64_t{64} << 20);
}

}  // namespace
}  // namespace sluice::tools
