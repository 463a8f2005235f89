#include "bench/store/checksum_cost.h"

#include <cstddef>
#include <string>

#include "bench/store/crc32c.h"
#include "bench/store/page_buffers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

using ::testing::ElementsAre;

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

/// Bit by bit.
std::uint32_t PlainCrc32c(std::span<const std::byte> data) {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (kPolynomial & (0U - (crc & 1)));
  }
  return ~crc;
}

std::uint32_t Crc32cOf(const std::string& text) { return Crc32c(std::as_bytes(std::span(text))); }

TEST(Crc32cTest, GivesTheKnownValues) {
  if (!HasCrc32c()) GTEST_SKIP() << "this processor has no SSE 4.2";
  EXPECT_EQ(Crc32cOf(""), 0U);
  EXPECT_EQ(Crc32cOf("123456789"), 0xe3069283U);
  EXPECT_EQ(Crc32cOf(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(Crc32cOf(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(Crc32cOf(ascending), 0x46dd794eU);
}

TEST(Crc32cTest, StreamsComeTogetherAtEveryLength) {
  if (!HasCrc32c()) GTEST_SKIP() << "this processor has no SSE 4.2";
  const auto pages = PageBuffers::Create(1, 64 * kKiB, Pages::kSmall);
  ASSERT_THAT(pages, testing::IsOk());
  const std::span<const std::byte> noise = (**pages)[0];
  for (const std::size_t bytes : {1, 8191, 12287, 12288, 12289, 24583, 40960, 65536}) {
    EXPECT_EQ(Crc32c(noise.first(bytes)), PlainCrc32c(noise.first(bytes))) << bytes;
  }
}

TEST(ChecksumCostTest, OneRowPerSizeThatIsAskedFor) {
  std::vector<Row> rows;
  const auto add = [&rows](const Row& row) { rows.push_back(row); };
  ASSERT_THAT(MeasureChecksumCost({.working_set_bytes = 1024 * kKiB, .reps = 1}, add),
              testing::IsOk());
  std::vector<std::string> names = ChecksumRowNames();
  if (!HasCrc32c()) std::erase_if(names, [](const auto& name) { return name[8] == '-'; });
  ASSERT_EQ(rows.size(), names.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].name, names[i]);
    EXPECT_GT(*rows[i].cost_ratio, 0);
    EXPECT_GT(rows[i].value, 0);
  }
  rows.clear();
  ASSERT_THAT(MeasureChecksumCost(
                  {.working_set_bytes = 1024 * kKiB, .reps = 1, .pattern = "checksum/2MiB"}, add),
              testing::IsOk());
  EXPECT_EQ(rows.size(), 1U);
}

TEST(ChecksumCostTest, EachSizeHasARowOfTheOneThatWasNotChosen) {
  EXPECT_THAT(ChecksumRowNames(),
              ElementsAre("checksum/256KiB",
                          "checksum-crc32c/256KiB",
                          "checksum/1MiB",
                          "checksum-crc32c/1MiB",
                          "checksum/2MiB",
                          "checksum-crc32c/2MiB",
                          "checksum/8MiB",
                          "checksum-crc32c/8MiB"));
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
