#include "tools/support/wrap.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

TEST(WrapTest, KeepsPartsWholeOnLinesThatFit) {
  const std::vector<std::string> parts = {std::string(30, 'a'), std::string(30, 'b'), "c d"};
  EXPECT_EQ(Wrap(parts, "  ", 4), std::string(30, 'a') + "  " + std::string(30, 'b') + "  c d");
  const std::vector<std::string> more = {std::string(40, 'a'), std::string(39, 'b'), "c d"};
  EXPECT_EQ(Wrap(more, "  ", 4), std::string(40, 'a') + "\n    " + std::string(39, 'b') + "  c d");
  const std::vector<std::string> full = {std::string(40, 'a'), std::string(38, 'b')};
  EXPECT_EQ(Wrap(full, "  ", 4).size(), kColumns);
}

TEST(WrapTest, ALongPartStaysWhole) {
  const std::vector<std::string> parts = {"a", std::string(100, 'b'), "c"};
  EXPECT_EQ(Wrap(parts, " ", 2), "a\n  " + std::string(100, 'b') + "\n  c");
  EXPECT_EQ(Wrap({}, " ", 2), "");
}

std::vector<std::string> Split(const std::string& text, const char* separators) {
  return absl::StrSplit(text, absl::ByAnyChar(separators), absl::SkipEmpty());
}

TEST(WrapLinesTest, BreaksBetweenWordsAndKeepsEveryOne) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "word" + std::to_string(i) + (i % 20 == 19 ? "\n" : " ");
  const std::string wrapped = WrapLines(text, 3);
  for (const std::string& line : Split(wrapped, "\n")) {
    EXPECT_LE(line.size(), kColumns);
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  EXPECT_EQ(Split(wrapped, " \n"), Split(text, " \n"));
}

TEST(WrapLinesTest, ShortLinesStayAsTheyAre) {
  const std::string text = "label              value, and  two spaces\n\nnext\n";
  EXPECT_EQ(WrapLines(text, 19), text);
  EXPECT_EQ(WrapLines("", 4), "");
  EXPECT_EQ(WrapLines("no newline", 4), "no newline");
}

TEST(WrapLinesTest, ANumberStaysWithItsUnit) {
  const std::string filler(74, 'x');
  EXPECT_EQ(WrapLines(filler + " 12.5 MiB, more", 2), filler + "\n  12.5 MiB, more");
  EXPECT_EQ(WrapLines(filler + " 12.5", 2), filler + " 12.5");
}

TEST(WrapLinesTest, ColumnsAreCodePoints) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "\xC3\xA4";  // 40 columns in 80 bytes
  EXPECT_EQ(WrapLines(text + " " + text.substr(0, 78), 0).find('\n'), std::string::npos);
  EXPECT_NE(WrapLines(text + " " + text, 0).find('\n'), std::string::npos);
}

TEST(WrapLinesTest, AWordLongerThanALineStaysWhole) {
  const std::string path(200, 'x');
  EXPECT_EQ(WrapLines("open " + path + " failed", 2), "open\n  " + path + "\n  failed");
}

}  // namespace
}  // namespace sluice::tools
