// Dram on several NUMA nodes, for which the only one of this machine stands in.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;

int MemoryFilesOfDram() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry, gone).string();
    count += target.find("memfd:sluice-dram") != std::string::npos ? 1 : 0;
  }
  return count;
}

/// Number of nodes, and of the pages of dram on them.
struct Case {
  std::size_t nodes;
  std::uint64_t pages;
};

class SeveralNodesTest : public ::testing::TestWithParam<Case> {
 protected:
  SeveralNodesTest() {
    runtime_.options.dram_bytes = Bytes(GetParam().pages * kPage);
    runtime_.hooks.memory_nodes.resize(GetParam().nodes);
  }
  RuntimeFixture runtime_;
};

TEST_P(SeveralNodesTest, EveryNodeHasAnArenaAndStatsAddThemUp) {
  runtime_.Start();
  EXPECT_EQ(MemoryFilesOfDram(), static_cast<int>(GetParam().nodes));
  const Stats stats = runtime_->GetStats();
  EXPECT_EQ(stats.tiers.at("dram").budget_bytes, GetParam().pages * kPage);
  EXPECT_EQ(stats.tiers.at("dram").arena_bytes, GetParam().pages * kPage);
  runtime_.Stop();
  EXPECT_EQ(MemoryFilesOfDram(), 0);
}

TEST_P(SeveralNodesTest, BytesWrittenInATierAreReadInEach) {
  runtime_.Start();
  std::vector<TensorId> tensors;
  for (std::uint64_t i = 0; i < 24; ++i) {
    const std::uint64_t bytes = 100 + i * 1700 % (7 * kPage);
    tensors.push_back(runtime_.Make("t" + std::to_string(i), bytes));
    runtime_.Write(tensors[i], Pattern(i, bytes), 0, i % 2 == 0 ? kDram0 : kHbm0);
  }
  for (const TierId tier : {kHbm0, kDram0, kDram0}) {
    for (std::uint64_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(runtime_.Read(tensors[i], tier), Pattern(i, 100 + i * 1700 % (7 * kPage))) << i;
    }
  }
}

/// All that dram can lease at once, so that frames of every node lie side by side.
TEST_P(SeveralNodesTest, AContiguousLeaseSpansAllNodes) {
  runtime_.options.hbm_bytes = Bytes();
  runtime_.Start();
  const std::uint64_t bytes = GetParam().pages * kPage;
  const TensorId tensor = runtime_.Make("t", bytes);
  const Access access{.tensor = tensor, .tier = kDram0};
  const std::byte* address = nullptr;
  {
    const auto lease =
        runtime_.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = kDram0});
    ASSERT_THAT(lease, IsOk());
    const auto pattern = Pattern(3, bytes);
    ASSERT_EQ(lease->Contiguous().size(), bytes);
    std::copy(pattern.begin(), pattern.end(), lease->Contiguous().begin());
    address = lease->Contiguous().data();
  }
  const TensorId other = runtime_.Make("other", bytes / 2);
  runtime_.Write(other, Pattern(4, bytes / 2));
  const auto lease = runtime_.Acquire(access);
  ASSERT_THAT(lease, IsOk());
  EXPECT_EQ(lease->Contiguous().data(), address) << "addresses never change";
  const auto pattern = Pattern(3, bytes);
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), lease->Contiguous().begin()));
}

TEST_P(SeveralNodesTest, ReservationsTakeFramesOfEveryNode) {
  runtime_.Start();
  const std::uint64_t pages = GetParam().pages - 4;  // transit frames stay
  auto reservation = runtime_->Reserve(kDram0, Bytes(pages * kPage));
  ASSERT_THAT(reservation, IsOk());
  ASSERT_EQ(reservation->Spans().size(), pages);
  for (std::uint64_t i = 0; i < pages; ++i) {
    const std::span<std::byte> span = reservation->Spans()[i];
    std::fill(span.begin(), span.end(), static_cast<std::byte>(i));
  }
  for (std::uint64_t i = 0; i < pages; ++i) {
    for (const std::byte byte : reservation->Spans()[i]) ASSERT_EQ(byte, static_cast<std::byte>(i));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Splits,
    SeveralNodesTest,
    ::testing::Values(Case{1, 32}, Case{2, 32}, Case{2, 33}, Case{3, 32}, Case{3, 31}, Case{3, 8}),
    [](const auto& test) {
      return std::to_string(test.param.pages) + "PagesOn" + std::to_string(test.param.nodes);
    });

Access Part(TensorId tensor, std::uint64_t index, AccessMode mode) {
  return {.tensor = tensor, .range = {index << 20, 1 << 20}, .mode = mode, .tier = kDram0};
}

/// Writes 30 MiB, each of another value.
void WriteMarks(RuntimeFixture& runtime, TensorId tensor) {
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto lease = runtime.Acquire(Part(tensor, i, AccessMode::kOverwrite));
    ASSERT_THAT(lease, IsOk());
    std::ranges::fill(lease->Contiguous(), static_cast<std::byte>(i + 1));
  }
}

void ExpectMarks(RuntimeFixture& runtime, TensorId tensor) {
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto lease = runtime.Acquire(Part(tensor, i, AccessMode::kRead));
    ASSERT_THAT(lease, IsOk());
    EXPECT_EQ(std::ranges::count(lease->Contiguous(), static_cast<std::byte>(i + 1)), 1 << 20);
  }
}

class BudgetOfSeveralNodesTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(BudgetOfSeveralNodesTest, ShrinksAndGrowsAcrossNodes) {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 256_KiB;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = 25_MiB;
  runtime.options.nvme_bytes = 64_MiB;
  runtime.hooks.memory_nodes.resize(GetParam());
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 30 << 20);
  WriteMarks(runtime, tensor);
  std::vector<Bytes> budgets = {9_MiB, 25_MiB, 2_MiB, 14_MiB, 20_MiB, 13_MiB};
  budgets.resize(static_cast<std::size_t>(testing::Rounds(6)));
  for (const Bytes budget : budgets) {
    ASSERT_THAT(runtime->SetBudget(kDram0, budget), IsOk());
    const TierStats stats = runtime->GetStats().tiers.at("dram");
    EXPECT_EQ(stats.budget_bytes, budget.count());
    EXPECT_GE(stats.arena_bytes, budget.count());
    EXPECT_LT(stats.arena_bytes, (budget + 4_MiB).count()) << "less than a chunk is kept";
    ExpectMarks(runtime, tensor);
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, BudgetOfSeveralNodesTest, ::testing::Values(1, 2, 3));

TEST(UnevenSplitTest, ANodeWithTooLittleMemoryIsAnnounced) {
  RuntimeFixture runtime;
  runtime.hooks.memory_nodes = {{.index = 0}, {.index = 0, .available_bytes = 10 * kPage}};
  runtime.Start();
  static_cast<void>(runtime->GetStats());  // announcements of the start have been made by now
  ASSERT_EQ(runtime.listener.fallbacks().size(), 1u);
  const FallbackEvent event = runtime.listener.fallbacks()[0];
  EXPECT_EQ(event.what, "numa_split");
  EXPECT_EQ(event.reason, "node 0 has 40 KiB available, an even share is 64 KiB");
  const auto pattern = Pattern(6, 100 * kPage);
  const TensorId tensor = runtime.Make("t", 100 * kPage);
  runtime.Write(tensor, pattern);
  EXPECT_EQ(runtime.Read(tensor), pattern);
}

}  // namespace
}  // namespace sluice
