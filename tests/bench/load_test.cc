#include "bench/store/load.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(LoadTest, CasesAreNamedByDirectionPatternSizeAndEngine) {
  EXPECT_EQ(CaseName({Direction::kRead, Pattern::kSeq, 2 * kMiB, StoreEngine::kIoUring}),
            "read/seq/2MiB/io_uring");
  EXPECT_EQ(CaseName({Direction::kMix, Pattern::kRandom, kMiB / 4, StoreEngine::kThreads}),
            "mix/random/256KiB/threads");
}

TEST(LoadTest, EveryCaseIsJudgedOnce) {
  std::set<std::string> names;
  for (const Case& which : JudgedCases()) names.insert(CaseName(which));
  EXPECT_EQ(names.size(), JudgedCases().size());
  EXPECT_EQ(names.size(), 24U);
  EXPECT_TRUE(names.contains("write/random/256KiB/io_uring"));
  EXPECT_TRUE(names.contains("read/random/2MiB/threads"));
  EXPECT_FALSE(names.contains("read/seq/256KiB/io_uring"));
}

TEST(LoadTest, TheMeanIsOverLargePagesOnIoUring) {
  const std::vector<Case> cases = JudgedCases();
  EXPECT_EQ(std::count_if(cases.begin(), cases.end(), CountsForMean), 18);
}

TEST(LoadTest, FilesAreOfEqualSize) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_EQ(FilesOf(16 << 20), 1U);
  EXPECT_EQ(FilesOf(2 * kGiB), 2U);
  EXPECT_EQ(FilesOf(9 * kGiB), 4U);
  EXPECT_EQ(FilesOf(2 * kGiB + kSizeUnit), 1U) << "an odd number of units";
}

TEST(LoadTest, PatternsAreSubstringsOrGlobs) {
  EXPECT_TRUE(MatchesPattern("", "read/seq/2MiB/io_uring"));
  EXPECT_TRUE(MatchesPattern("seq/2MiB", "read/seq/2MiB/io_uring"));
  EXPECT_TRUE(MatchesPattern("read/*/io_uring", "read/seq/2MiB/io_uring"));
  EXPECT_FALSE(MatchesPattern("read/*", "plain-loop/read/random/2MiB/io_uring"));
  EXPECT_FALSE(MatchesPattern("threads", "read/seq/2MiB/io_uring"));
}

TEST(LoadTest, RowsBesideACaseChooseIt) {
  const auto selected = [](const std::string& pattern) {
    std::vector<std::string> names;
    for (const Case& which : SelectedCases(pattern)) names.push_back(CaseName(which));
    return names;
  };
  EXPECT_THAT(selected("plain-loop/read/"), ::testing::ElementsAre("read/random/2MiB/io_uring"));
  EXPECT_EQ(selected("plain-loop/*").size(), 3U);
  EXPECT_EQ(selected("all/geomean").size(), 18U);
  EXPECT_EQ(selected("").size(), JudgedCases().size());
  EXPECT_THAT(selected("peer/*/fio-libaio"),
              ::testing::ElementsAre("read/random/2MiB/io_uring", "write/random/2MiB/io_uring"));
}

TEST(LoadTest, DepthIsEightPagesAndMoreSmallOnes) {
  const auto depth = [](std::uint64_t page_bytes) { return DepthOf({.page_bytes = page_bytes}); };
  EXPECT_EQ(depth(8 * kMiB), 8U);
  EXPECT_EQ(depth(kMiB), 8U);
  EXPECT_EQ(depth(kMiB / 4), 32U);
  EXPECT_EQ(depth(kMiB / 64), 32U);
}

TEST(LoadTest, ReadsHaveMoreBuffersThanWrites) {
  const auto hashed = [](Direction direction) {
    return HashedPages({.direction = direction, .page_bytes = 2 * kMiB});
  };
  EXPECT_EQ(hashed(Direction::kRead), 8U);
  EXPECT_EQ(hashed(Direction::kMix), 2U);
  EXPECT_EQ(hashed(Direction::kWrite), 0U);
}

}  // namespace
}  // namespace sluice::bench
