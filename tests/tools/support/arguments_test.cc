#include "tools/support/arguments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<FlagSpec> kSpecs = {{"--json", FlagShape::kSwitch, "", "prints JSON"},
                                      {"--config", FlagShape::kValue, "FILE", "configuration"},
                                      {"--set", FlagShape::kRepeated, "KEY=VALUE", "override"},
                                      {"--text", FlagShape::kList, "FILE", "texts"}};

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& words) {
  return Arguments::Parse(words, kSpecs);
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const absl::StatusOr<Arguments> arguments = Parse(words);
  EXPECT_EQ(arguments.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(arguments.status().message());
}

TEST(ArgumentsTest, ReadsEveryShape) {
  const absl::StatusOr<Arguments> arguments = Parse(
      {"--text", "a", "b", "--json", "--set", "x=1", "--set", "y=2", "--config=two=2", "--text=c"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_TRUE(arguments->Has("--json"));
  EXPECT_EQ(arguments->Value("--config"), "two=2");
  EXPECT_THAT(arguments->Values("--set"), ElementsAre("x=1", "y=2"));
  EXPECT_THAT(arguments->Values("--text"), ElementsAre("a", "b", "c"));
}

TEST(ArgumentsTest, AbsentFlagsAreAbsent) {
  const absl::StatusOr<Arguments> arguments = Parse({});
  ASSERT_TRUE(arguments.ok());
  EXPECT_FALSE(arguments->Has("--json"));
  EXPECT_EQ(arguments->Value("--config", "default"), "default");
  EXPECT_TRUE(arguments->Values("--text").empty());
}

TEST(ArgumentsTest, ErrorsNameTheFlag) {
  EXPECT_THAT(ErrorOf({"--jsno"}), HasSubstr("\"--jsno\"; did you mean \"--json\"?"));
  EXPECT_THAT(ErrorOf({"--cnofig=x"}), HasSubstr("did you mean \"--config\"?"));
  EXPECT_THAT(ErrorOf({"--config"}), HasSubstr("--config needs a value: --config FILE"));
  EXPECT_THAT(ErrorOf({"--text", "--json"}), HasSubstr("--text needs a value"));
  EXPECT_THAT(ErrorOf({"--json=1"}), HasSubstr("--json takes no value"));
  EXPECT_THAT(ErrorOf({"stray"}), HasSubstr("\"stray\" belongs to no flag"));
  EXPECT_THAT(ErrorOf({"--config", "a", "b"}), HasSubstr("\"b\" belongs to no flag"));
  EXPECT_EQ(ErrorOf({"--config", "a", "--config=b"}), "--config is given twice; once is enough");
  EXPECT_EQ(ErrorOf({"--frobnicate"}), "unknown flag \"--frobnicate\" (--help lists the flags)");
}

TEST(ArgumentsTest, WordsWithoutAFlagAreTakenInTheirOrder) {
  const std::vector<FlagSpec> specs = {{"FROM", FlagShape::kWord, "", "where from"},
                                       {"TO", FlagShape::kWord, "", "where to"},
                                       {"--key", FlagShape::kValue, "KEY", "a key"}};
  const std::vector<std::string> words = {"a", "--key", "k", "b"};
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(words, specs);
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->Value("FROM"), "a");
  EXPECT_EQ(arguments->Value("TO"), "b");
  EXPECT_EQ(arguments->Value("--key"), "k");
  const std::vector<std::string> more = {"a", "b", "c"};
  EXPECT_THAT(std::string(Arguments::Parse(more, specs).status().message()),
              HasSubstr("\"c\" belongs to no flag"));
  EXPECT_FALSE(Arguments::Parse({}, specs)->Has("FROM"));
  EXPECT_THAT(DescribeFlags(specs), HasSubstr("  FROM "));
}

TEST(ArgumentsTest, HelpHasALinePerFlag) {
  const std::string text = DescribeFlags(kSpecs);
  EXPECT_THAT(text, HasSubstr("--json "));
  EXPECT_THAT(text, HasSubstr("--config FILE"));
  EXPECT_THAT(text, HasSubstr("--text FILE ..."));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

}  // namespace
}  // namespace sluice::tools
