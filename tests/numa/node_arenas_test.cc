#include "numa/node_arenas.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"

namespace sluice::numa {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kArenasMiB = 1 << 20;

/// `count` nodes, each of them the first of this machine.
std::vector<MemoryNode> Nodes(std::size_t count) { return std::vector<MemoryNode>(count); }

std::unique_ptr<NodeArenas> Make(const NodeArenasOptions& options) {
  auto arenas = NodeArenas::Create(options);
  EXPECT_TRUE(arenas.ok()) << arenas.status();
  return arenas.ok() ? *std::move(arenas) : nullptr;
}

std::byte MarkOf(std::uint32_t frame) { return static_cast<std::byte>(frame * 7 + 1); }

bool AllAre(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == value; });
}

/// Marks every frame, then looks at each under its own address and under one beside the others.
void ExpectFramesHold(const NodeArenas& arenas) {
  const std::uint64_t page = arenas.page_bytes();
  const std::uint32_t frames = arenas.frame_count();
  const auto range = *AddressRange::Reserve(frames * page);
  for (std::uint32_t i = 0; i < frames; ++i) {
    const std::span<std::byte> frame = arenas.Frame(i);
    ASSERT_EQ(frame.size(), page);
    std::fill(frame.begin(), frame.end(), MarkOf(i));
    ASSERT_TRUE(arenas.MapAt(i, range->base() + i * page).ok());
  }
  for (std::uint32_t i = 0; i < frames; ++i) {
    EXPECT_TRUE(AllAre(arenas.Frame(i), MarkOf(i))) << i;
    EXPECT_TRUE(AllAre({range->base() + i * page, page}, MarkOf(i))) << i;
  }
}

TEST(NodeArenasTest, KnowsTheArenaOfAFrameAndTheProcessorsNearIt) {
  std::vector<MemoryNode> nodes = Nodes(2);
  nodes[0].cpus = {0, 1};
  nodes[1].cpus = {1};
  const auto arenas = Make({.page_bytes = 64 << 10, .frames = 11, .nodes = nodes, .cpus = {0}});
  for (std::uint32_t i = 0; i < 11; ++i) EXPECT_EQ(arenas->ArenaOf(i), i < 6 ? 0U : 1U) << i;
  EXPECT_EQ(arenas->CpusNear(0), std::vector<int>{0});
  EXPECT_EQ(arenas->CpusNear(1), std::vector<int>{0}) << "none of its own may be used";
}

TEST(NodeArenasTest, TheFirstNodeIsFilledBeforeTheOthers) {
  std::vector<MemoryNode> nodes = Nodes(3);
  nodes[1].index = 1;
  nodes[2] = {.index = 2, .available_bytes = 8 * kArenasMiB, .cpus = {1}};
  NodeArenasOptions options{.page_bytes = kArenasMiB, .frames = 8, .nodes = nodes};
  options.first_node = 2;
  const auto all_there = Make(options);
  EXPECT_EQ(all_there->arena_count(), 1u);
  EXPECT_EQ(all_there->CpusNear(0), std::vector<int>{1});
  EXPECT_EQ(all_there->info().split_reason, "");
  options.frames = 11;
  const auto in_part = Make(options);
  EXPECT_EQ(in_part->info().split_reason,
            "node 2, which is nearest to the GPU, has 8192 KiB available of 11 MiB");
  EXPECT_EQ(in_part->info().split, "8192 KiB on node 2, 3072 KiB on node 0");
  ExpectFramesHold(*in_part);
  options.first_node = 3;
  EXPECT_EQ(Make(options)->arena_count(), 3u) << "no node of dram: even shares";
}

TEST(NodeArenasTest, FramesOfAllNodesAreOneSequence) {
  for (const std::size_t nodes : {1u, 2u, 3u}) {
    SCOPED_TRACE(nodes);
    const auto arenas = Make({.page_bytes = 64 << 10, .frames = 103, .nodes = Nodes(nodes)});
    ASSERT_NE(arenas, nullptr);
    EXPECT_EQ(arenas->arena_count(), nodes);
    EXPECT_EQ(arenas->frame_count(), 103u);
    EXPECT_EQ(arenas->allocated_bytes(), 103u * (64 << 10));
    ExpectFramesHold(*arenas);
  }
}

TEST(NodeArenasTest, ANodeWithoutFramesHasNoArena) {
  const auto arenas = Make({.page_bytes = 4096, .frames = 2, .nodes = Nodes(3)});
  ASSERT_NE(arenas, nullptr);
  EXPECT_EQ(arenas->arena_count(), 1u);
  EXPECT_EQ(arenas->frame_count(), 2u);
}

TEST(NodeArenasTest, TheLastNodeShrinksFirstAndGrowsLast) {
  // 7 MiB in three parts: 3, 2 and 2 MiB in chunks of 2 MiB.
  const auto arenas = Make({.page_bytes = kArenasMiB, .frames = 7, .nodes = Nodes(3)});
  ASSERT_NE(arenas, nullptr);
  EXPECT_EQ(*arenas->Shrink(6), 7u) << "a whole chunk stays";
  EXPECT_EQ(*arenas->Shrink(4), 5u);
  EXPECT_EQ(arenas->allocated_bytes(), 5 * kArenasMiB);
  EXPECT_EQ(*arenas->Shrink(1), 2u);
  EXPECT_EQ(arenas->frame_count(), 2u);
  EXPECT_EQ(arenas->allocated_bytes(), 2 * kArenasMiB);
  EXPECT_EQ(*arenas->Grow(4), 5u);
  ExpectFramesHold(*arenas);
  EXPECT_EQ(*arenas->Grow(7), 7u);
  EXPECT_EQ(arenas->Grow(8).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arenas->allocated_bytes(), 7 * kArenasMiB);
  ExpectFramesHold(*arenas);
}

std::vector<std::pair<std::byte*, std::size_t>> Places(
    const std::vector<std::span<std::byte>>& chunks) {
  std::vector<std::pair<std::byte*, std::size_t>> places;
  for (const auto chunk : chunks) places.emplace_back(chunk.data(), chunk.size());
  return places;
}

TEST(NodeArenasTest, ChunksAreWhatShrinkLeavesAndGrowTakes) {
  // Chunks of 2 and 1, 2, and 2 MiB.
  const auto arenas = Make({.page_bytes = kArenasMiB, .frames = 7, .nodes = Nodes(3)});
  ASSERT_NE(arenas, nullptr);
  const auto all = Places(arenas->Chunks());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], std::pair(arenas->Frame(0).data(), std::size_t{2 * kArenasMiB}));
  EXPECT_EQ(all[1], std::pair(arenas->Frame(2).data(), std::size_t{kArenasMiB}));
  EXPECT_EQ(all[3], std::pair(arenas->Frame(5).data(), std::size_t{2 * kArenasMiB}));
  for (const std::uint32_t frames : {6, 4, 1}) {
    const auto staying = Places(arenas->ChunksOf(frames));
    ASSERT_TRUE(arenas->Shrink(frames).ok());
    EXPECT_EQ(Places(arenas->Chunks()), staying) << frames;
  }
  EXPECT_EQ(arenas->Chunks().size(), 1u);
  ASSERT_TRUE(arenas->Grow(7).ok());
  EXPECT_EQ(Places(arenas->Chunks()), all) << "the same addresses";
}

TEST(NodeArenasTest, HugePagesOfAllNodesCount) {
  const auto arenas = Make({.page_bytes = kArenasMiB, .frames = 9, .nodes = Nodes(2)});
  ASSERT_NE(arenas, nullptr);
  if (!arenas->info().huge_page_reason.empty()) GTEST_SKIP() << arenas->info().huge_page_reason;
  EXPECT_DOUBLE_EQ(arenas->huge_page_share(), 8.0 / 9) << "4 of 5 MiB and 4 of 4";
  EXPECT_TRUE(arenas->all_huge());
  EXPECT_EQ(arenas->info().binding_reason, "");
  EXPECT_EQ(arenas->info().split_reason, "");
}

std::string WithoutHugePages(std::size_t nodes) {
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return "prctl refused";
  const auto arenas = Make({.page_bytes = 2 * kArenasMiB, .frames = 4, .nodes = Nodes(nodes)});
  return arenas->info().huge_page_reason + (arenas->all_huge() ? ", all huge" : ", not all huge");
}

TEST(NodeArenasTest, ANodeOnSmallPagesIsNamed) {
  EXPECT_EQ(testing::RunInChild([] { return WithoutHugePages(1); }),
            "MADV_COLLAPSE refused for 4 of 4 units of 2 MiB: EINVAL, not all huge");
  const std::string two = testing::RunInChild([] { return WithoutHugePages(2); });
  EXPECT_EQ(two,
            "node 0: MADV_COLLAPSE refused for 2 of 2 units of 2 MiB: EINVAL; "
            "node 0: MADV_COLLAPSE refused for 2 of 2 units of 2 MiB: EINVAL, not all huge");
}

/// Two nodes of 64, of which the second does not exist.
NodeArenasOptions OneNodeMissing() {
  NodeArenasOptions options{.page_bytes = 2 * kArenasMiB, .frames = 4};
  options.nodes = {{.index = 0, .node_count = 64}, {.index = 63, .node_count = 64}};
  return options;
}

TEST(NodeArenasTest, ARefusedBindingNamesItsNode) {
  const auto arenas = Make(OneNodeMissing());
  ASSERT_NE(arenas, nullptr);
  EXPECT_THAT(arenas->info().binding_reason, HasSubstr("mbind to node 63 refused: EINVAL"));
  ASSERT_TRUE(arenas->Shrink(1).ok());
  ASSERT_TRUE(arenas->Grow(2).ok());
  EXPECT_THAT(arenas->info().binding_reason, ::testing::Not(HasSubstr("63")))
      << "memory of the node was not taken again";
  ASSERT_TRUE(arenas->Grow(4).ok());
  EXPECT_THAT(arenas->info().binding_reason, HasSubstr("63"));
}

TEST(NodeArenasTest, AnUnevenSplitSaysWhyAndHow) {
  NodeArenasOptions options{.page_bytes = kArenasMiB, .frames = 9};
  options.nodes = {{.index = 0}, {.index = 1, .available_bytes = 3 * kArenasMiB}};
  const auto arenas = Make(options);
  ASSERT_NE(arenas, nullptr);
  EXPECT_EQ(arenas->info().split_reason,
            "node 1 has 3072 KiB available, an even share is 4096 KiB");
  EXPECT_EQ(arenas->info().split, "6144 KiB on node 0, 3072 KiB on node 1");
  ExpectFramesHold(*arenas);
}

TEST(NodeArenasTest, AFeatureThatIsOffHasThatReason) {
  NodeArenasOptions options = OneNodeMissing();
  options.bind = false;
  options.even = false;
  options.nodes[0].available_bytes = 6 * kArenasMiB;
  const auto uneven = Make(options);
  ASSERT_NE(uneven, nullptr);
  EXPECT_EQ(uneven->info().binding_reason, "off by option");
  EXPECT_EQ(uneven->info().split_reason, "off by option");
  EXPECT_EQ(uneven->info().split, "6144 KiB on node 0, 2048 KiB on node 63");

  options.nodes = {{.index = 0}};
  const auto one = Make(options);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->info().binding_reason, "") << "memory can come from nowhere else";
  EXPECT_EQ(one->info().split_reason, "") << "one node has everything";

  options.nodes = {{.index = 0, .available_bytes = 4 * kArenasMiB}, {.index = 0}};
  const auto even = Make(options);
  ASSERT_NE(even, nullptr);
  EXPECT_EQ(even->info().split_reason, "") << "shares are even";
}

int MemoryFilesOpen() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry, gone).string();
    count += target.find("memfd:sluice-") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(NodeArenasTest, EachNodeHasAMemoryFileThatGoesWithIt) {
  const auto arenas = Make({.name = "n", .page_bytes = 4096, .frames = 9, .nodes = Nodes(3)});
  EXPECT_EQ(MemoryFilesOpen(), 3);
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("/memfd:sluice-n-node0"));
}

std::string WithoutMemoryFiles() {
  std::string failed =
      testing::RefuseSystemCall(SYS_memfd_create, EMFILE, testing::Refuse::kEveryCall);
  if (!failed.empty()) return failed;
  const auto refused = NodeArenas::Create({.page_bytes = 4096, .frames = 9, .nodes = Nodes(3)});
  return refused.ok() ? "made" : std::string(refused.status().message());
}

TEST(NodeArenasTest, AnArenaThatCannotBeMadeIsAnError) {
  EXPECT_THAT(testing::RunInChild(WithoutMemoryFiles),
              HasSubstr("memfd_create of arena dram-node0"));
  for (const NodeArenasOptions& options :
       {NodeArenasOptions{.page_bytes = 4096, .frames = 1},
        NodeArenasOptions{.page_bytes = 4096, .frames = 0, .nodes = Nodes(1)},
        NodeArenasOptions{.page_bytes = 4095, .frames = 8, .nodes = Nodes(2)}}) {
    EXPECT_EQ(NodeArenas::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sluice::numa
