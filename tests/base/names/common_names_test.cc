#include "base/names/common_names.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gtest/gtest.h"

namespace sluice::base {
namespace {

const std::vector<std::string> kKeys = {"train.learning_rate", "train.texts", "tiers.dram.bytes"};
const std::vector<std::string> kFlags = {"--text", "--save", "--set"};

TEST(OurNameTest, IsFoundWhateverSectionDashesAndCapitalsTheNameHas) {
  EXPECT_EQ(OurName("lr", kKeys), "train.learning_rate");
  EXPECT_EQ(OurName("train.lr", kKeys), "train.learning_rate");
  EXPECT_EQ(OurName("optimizer.base-lr", kKeys), "train.learning_rate");
  EXPECT_EQ(OurName("CPU_memory", kKeys), "tiers.dram.bytes");
  EXPECT_EQ(OurName("--output", kFlags), "--save");
}

TEST(OurNameTest, IsOneOfTheCandidates) {
  EXPECT_EQ(OurName("data", kKeys), "train.texts");
  EXPECT_EQ(OurName("data", kFlags), "--text");
  EXPECT_EQ(OurName("vram", kKeys), "");
  EXPECT_EQ(OurName("something", kKeys), "");
  EXPECT_EQ(OurName("", kKeys), "");
  EXPECT_EQ(OurName("--", kKeys), "");
}

TEST(OurNameTest, ComesBeforeTheNearestName) {
  EXPECT_EQ(DidYouMean("--out", {{"--set", "--save", "--our"}}), "; did you mean \"--save\"?");
  EXPECT_EQ(DidYouMean("--txt", kFlags), "; did you mean \"--text\"?");
}

TEST(OurKeyTest, KnowsFlagsOfOthersThatAreKeysHere) {
  EXPECT_EQ(OurKey("--lr"), "train.learning_rate");
  EXPECT_EQ(OurKey("--max-grad-norm"), "train.clip_norm");
  EXPECT_EQ(OurKey("--steps"), "train.steps");
  EXPECT_EQ(OurKey("--data"), "train.texts");
  EXPECT_EQ(OurKey("--ckpt"), "");
  EXPECT_EQ(OurKey("--frobnicate"), "");
}

TEST(CommonNamesTest, EachCommonNameIsFoundAsItIsWritten) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const CommonName& each : CommonNames()) {
    const std::string theirs(each.theirs);
    EXPECT_EQ(OurName(theirs, {{std::string(each.ours)}}), each.ours) << theirs;
    EXPECT_TRUE(seen.insert({theirs, std::string(each.ours)}).second) << theirs;
  }
}

}  // namespace
}  // namespace sluice::base
