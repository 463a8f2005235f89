#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Fixture for each type of the optimizer's states.
class TrainStatesTest : public TrainCommandTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::string> WordsWith(std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "train.states=\"" + std::string(GetParam()) + "\""});
    return Words(more);
  }
};

TEST_P(TrainStatesTest, AreTheSameBitForBitInRam) {
  Command command(WordsWith({"--verify", "--json"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_EQ(Json::parse(command.output())["verify"]["identical"], true);
}

/// Least budget of `tier` that the message names.
std::string LeastIn(const std::string& message, const std::string& tier) {
  const std::string least = ", at least ";
  const std::size_t key = message.find("tiers." + tier + ".bytes is ");
  const std::size_t at = key == std::string::npos ? key : message.find(least, key);
  EXPECT_NE(at, std::string::npos) << tier << " in " << message;
  if (at == std::string::npos) return "";
  const std::size_t begin = at + least.size();
  const std::size_t end = message.find("iB", begin);
  EXPECT_LE(end - begin, 12u) << message;
  return message.substr(begin, end + 2 - begin);
}

TEST_P(TrainStatesTest, TooSmallBudgetsAreNamedAtOnceWithTheLeastThatWillDo) {
  std::vector<std::string> none;
  std::vector<std::string> least;
  for (const std::string tier : {"hbm", "dram", "nvme"}) {
    none.insert(none.end(), {"--set", "tiers." + tier + ".bytes=0"});
  }
  const std::string message = UserError(WordsWith(none));
  EXPECT_THAT(message, AllOf(HasSubstr("op '"), HasSubstr("in transit"), HasSubstr("in flight")));
  for (const std::string tier : {"hbm", "dram", "nvme"}) {
    const std::string bytes = LeastIn(message, tier);
    least.insert(least.end(), {"--set", "tiers." + tier + ".bytes=" + bytes});
    EXPECT_THAT(UserError(WordsWith({"--set", "tiers." + tier + ".bytes=0"})),
                HasSubstr("tiers." + tier + ".bytes is 0 B, at least"));
  }
  Command command(WordsWith(least));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
}

INSTANTIATE_TEST_SUITE_P(All, TrainStatesTest, ::testing::Values("fp32", "bf16", "8bit"));

}  // namespace
}  // namespace sluice::tools
