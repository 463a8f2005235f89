#include "base/strings.h"

#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::base {
namespace {

TEST(NearestNameTest, FindsTheSmallestEditDistance) {
  const std::vector<std::string> keys = {"tiers.hbm.bytes", "tiers.dram.bytes", "page_bytes"};
  EXPECT_EQ(NearestName("tiers.drm.bytes", keys), "tiers.dram.bytes");
  EXPECT_EQ(NearestName("tier.hbm.bytes", keys), "tiers.hbm.bytes");
  EXPECT_EQ(NearestName("pagebytes", keys), "page_bytes");
  EXPECT_EQ(NearestName("page_bytes", keys), "page_bytes");
  const std::vector<std::string> nvme = {"tiers.nvme.bytes", "tiers.nvme.directory"};
  EXPECT_EQ(NearestName("tiers.nvme.dir", nvme), "tiers.nvme.directory")
      << "the beginning of the name";
}

TEST(NearestNameTest, CountsInsertionsDeletionsAndReplacements) {
  const std::vector<std::string> names = {"lru", "minimum"};
  EXPECT_EQ(NearestName("lr", names), "lru");
  EXPECT_EQ(NearestName("lrux", names), "lru");
  EXPECT_EQ(NearestName("lra", names), "lru");
  EXPECT_EQ(NearestName("", names), "");
}

TEST(NearestNameTest, AFarNameIsNoSuggestion) {
  const std::vector<std::string> names = {"train", "doctor"};
  EXPECT_EQ(NearestName("trian", names), "train");
  EXPECT_EQ(NearestName("dctr", names), "doctor");
  EXPECT_EQ(NearestName("status", names), "");
  EXPECT_EQ(DidYouMean("trian", names), "; did you mean \"train\"?");
  EXPECT_EQ(DidYouMean("status", names), "");
}

TEST(NearestNameTest, ACommonSectionMakesNoNameNear) {
  const std::vector<std::string> keys = {
      "train.eps", "train.steps", "model.heads", "tiers.hbm.bytes"};
  EXPECT_EQ(NearestName("train.foo", keys), "");
  EXPECT_EQ(NearestName("model.hidden", keys), "");
  EXPECT_EQ(NearestName("train.stesp", keys), "train.steps");
  EXPECT_EQ(NearestName("tiers.hbm.size", keys), "");
  EXPECT_EQ(NearestName("tiers.hbm.byte", keys), "tiers.hbm.bytes");
}

TEST(NearestNameTest, TiesGoToTheFirst) {
  const std::vector<std::string> names = {"ab", "ac"};
  EXPECT_EQ(NearestName("ad", names), "ab");
}

TEST(NearestNameTest, NothingToChooseFromIsEmpty) {
  EXPECT_EQ(NearestName("anything", std::vector<std::string>{}), "");
}

TEST(StringViewTest, ConversionsKeepEmbeddedZeros) {
  const std::string_view text("a\0b", 3);
  EXPECT_EQ(ToAbsl(text).size(), 3u);
  EXPECT_EQ(ToStd(ToAbsl(text)), text);
}

TEST(CountedTest, OneHasNoPlural) {
  EXPECT_EQ(Counted(0, "page"), "0 pages");
  EXPECT_EQ(Counted(1, "page"), "1 page");
  EXPECT_EQ(Counted(2, "page"), "2 pages");
}

TEST(ShellWordTest, IsQuotedWhereAShellWouldSeeMore) {
  EXPECT_EQ(ShellWord("/var/tmp/sluice-0"), "/var/tmp/sluice-0");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("/a b/$HOME"), "'/a b/$HOME'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace sluice::base
