#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;

const std::string kTiny = testing::ProjectFile("configs/train-gpt-tiny.toml");

std::vector<std::string> Words(const TemporaryDirectory& directory,
                               const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "lab", "validate", "--config", kTiny, "--set", "tiers.nvme.directory=" + directory.path()};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(LabValidateTest, SaysWhatWasMeasuredAndWhatPredicted) {
  const TemporaryDirectory directory;
  Command command(Words(directory, {"--budgets", "100", "--json"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const auto line = nlohmann::json::parse(command.output());
  EXPECT_EQ(line["percent"], 100);
  EXPECT_EQ(line["policy"], "planned");
  EXPECT_EQ(line["key"], "train");
  EXPECT_GT(line["steps"], 0);
  EXPECT_GT(line["measured_step_s"], line["measured_stall_s"]);
  EXPECT_GT(line["predicted_step_s"], 0);
  EXPECT_GE(line["predicted_step_s"], line["predicted_stall_s"]);
  EXPECT_GE(line["predicted_stall_s"], 0);
}

TEST(LabValidateTest, BudgetsThatAreTooSmallAreFoundBeforeTheWork) {
  const TemporaryDirectory directory;
  Command command(Words(directory, {"--budgets", "100,1"}));
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.errors(), HasSubstr("--budgets 1"));
  EXPECT_THAT(command.errors(), HasSubstr("tiers.hbm.bytes"));
  EXPECT_EQ(command.output(), "");
}

}  // namespace
}  // namespace sluice::tools
