#include "bench/store/checksum_cost.h"

#include "bench/store/page_buffers.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;

TEST(ChecksumCostTest, EveryPassReadsEveryWord) {
  const auto pages = PageBuffers::Create(1, 64 * kKiB, Pages::kHuge);
  ASSERT_THAT(pages, testing::IsOk());
  const std::span<std::byte> data = (**pages)[0];
  ASSERT_FALSE(ReadPasses().empty());
  for (const ReadPass& pass : ReadPasses()) {
    const std::uint64_t before = pass.sum(data);
    for (const std::size_t at : {std::size_t{0}, std::size_t{72}, data.size() - 8}) {
      data[at] ^= std::byte{1};
      EXPECT_NE(pass.sum(data), before) << pass.name << " at " << at;
      data[at] ^= std::byte{1};
    }
    EXPECT_EQ(before, ReadPasses().front().sum(data)) << pass.name;
  }
}

TEST(ChecksumCostTest, OneRowPerSizeThatIsAskedFor) {
  std::vector<Row> rows;
  const auto add = [&rows](const Row& row) { rows.push_back(row); };
  ASSERT_THAT(MeasureChecksumCost({.working_set_bytes = 1024 * kKiB, .reps = 1}, add),
              testing::IsOk());
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "checksum/256KiB");
  EXPECT_EQ(rows[3].name, "checksum/8MiB");
  EXPECT_GT(*rows[0].cost_ratio, 0);
  EXPECT_GT(rows[0].value, 0);
  rows.clear();
  ASSERT_THAT(MeasureChecksumCost(
                  {.working_set_bytes = 1024 * kKiB, .reps = 1, .pattern = "checksum/2MiB"}, add),
              testing::IsOk());
  EXPECT_EQ(rows.size(), 1U);
}

TEST(ChecksumCostTest, AnInterruptEndsIt) {
  const auto interrupted = [] { return true; };
  EXPECT_THAT(MeasureChecksumCost({.interrupted = interrupted}, [](const Row&) {}),
              testing::HasCode(absl::StatusCode::kCancelled));
}

TEST(PageBuffersTest, BuffersAreApartAlignedAndNoisy) {
  const auto buffers = PageBuffers::Create(3, 256 * kKiB, Pages::kSmall);
  ASSERT_THAT(buffers, testing::IsOk());
  EXPECT_FALSE((*buffers)->huge());
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::span<std::byte> data = (**buffers)[i];
    EXPECT_EQ(data.size(), 256 * kKiB);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.data()) % 4096, 0U);
    EXPECT_EQ(data.data(), (**buffers)[0].data() + i * data.size());
    EXPECT_NE(data[0], data[1]);
  }
}

}  // namespace
}  // namespace sluice::bench
