#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;

TEST(MainTest, HelpAndVersionGoToStandardOutput) {
  for (const char* word : {"--help", "help"}) {
    Command command({word});
    EXPECT_EQ(command.Wait(), 0);
    EXPECT_THAT(command.output(), HasSubstr("train"));
    EXPECT_EQ(command.errors(), "");
  }
  Command version({"--version"});
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.output(), ::testing::MatchesRegex("sluice [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(MainTest, UnknownSubCommandNamesTheNearest) {
  Command command({"trian"});
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_EQ(command.output(), "");
  EXPECT_THAT(command.errors(),
              HasSubstr("\"trian\" is no sub-command of sluice; did you mean \"train\"?"));
}

TEST(MainTest, OutputThatIsLostIsNoSuccess) {
  const std::vector<std::vector<std::string>> all = {
      {"--version"}, {"train", "--help"}, {"doctor", "--json"}};
  for (const std::vector<std::string>& words : all) {
    Command command(words, {.output_path = "/dev/full"});
    EXPECT_EQ(command.Wait(), 3) << words.front();
    EXPECT_THAT(command.errors(), HasSubstr("standard output"));
  }
}

TEST(MainTest, ErrorsThatAreLostKeepTheExitCode) {
  Command command({"trian"}, {.errors_path = "/dev/full"});
  EXPECT_EQ(command.Wait(), 2);
}

TEST(MainTest, NothingIsAUserError) {
  Command command({});
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.errors(), HasSubstr("Usage"));
}

TEST(MainTest, SubCommandHelpListsItsFlags) {
  for (const char* help : {"--help", "-h"}) {
    Command command({"train", help});
    EXPECT_EQ(command.Wait(), 0);
    EXPECT_THAT(command.output(), HasSubstr("--verify"));
  }
}

}  // namespace
}  // namespace sluice::tools
