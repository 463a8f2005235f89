#include "numa/arena.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_probe.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

std::unique_ptr<Arena> MakeArena(const ArenaOptions& options) {
  auto arena = Arena::Create(options);
  EXPECT_TRUE(arena.ok()) << arena.status();
  return arena.ok() ? *std::move(arena) : nullptr;
}

void Fill(std::span<std::byte> bytes, int value) {
  std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(value));
}

bool AllAre(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) {
    return byte == static_cast<std::byte>(value);
  });
}

/// The VmFlags line of the mapping that begins at `address`.
std::string VmFlags(const void* address) {
  char begin[32];
  std::snprintf(begin, sizeof(begin), "%lx-", reinterpret_cast<std::uintptr_t>(address));
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.rfind(begin, 0) == 0) inside = true;
    if (inside && line.rfind("VmFlags:", 0) == 0) return line;
  }
  return "";
}

TEST(ArenaTest, FramesAreDistinctZeroedAndHoldTheirBytes) {
  auto arena = MakeArena({.page_bytes = 64 * kKiB, .frames = 40});
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(arena->frame_count(), 40u);
  EXPECT_EQ(arena->page_bytes(), 64 * kKiB);
  for (std::uint32_t frame = 0; frame < 40; ++frame) {
    ASSERT_EQ(arena->Frame(frame).size(), 64 * kKiB);
    ASSERT_TRUE(AllAre(arena->Frame(frame), 0)) << frame;
    Fill(arena->Frame(frame), static_cast<int>(frame) + 1);
  }
  for (std::uint32_t frame = 0; frame < 40; ++frame) {
    EXPECT_TRUE(AllAre(arena->Frame(frame), static_cast<int>(frame) + 1)) << frame;
  }
}

TEST(ArenaTest, ReportsAllBytesAsAllocated) {
  for (const bool huge : {true, false}) {
    auto arena = MakeArena({.page_bytes = 256 * kKiB, .frames = 100, .huge_pages = huge});
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(arena->allocated_bytes(), 100 * 256 * kKiB) << "huge pages " << huge;
  }
}

TEST(ArenaTest, MappedFramesShareTheirBytesWithTheArena) {
  auto arena = MakeArena({.page_bytes = 256 * kKiB, .frames = 16});
  ASSERT_NE(arena, nullptr);
  auto range = AddressRange::Reserve(4 * 256 * kKiB);
  ASSERT_TRUE(range.ok()) << range.status();
  std::byte* base = (*range)->base();
  for (const std::uint32_t frame : {13u, 2u}) {
    const std::span<std::byte> mapped(base + 256 * kKiB, 256 * kKiB);
    ASSERT_TRUE(arena->MapAt(frame, mapped.data()).ok());
    Fill(arena->Frame(frame), 7);
    EXPECT_TRUE(AllAre(mapped, 7));
    Fill(mapped, 9);
    EXPECT_TRUE(AllAre(arena->Frame(frame), 9));
  }
  EXPECT_FALSE(testing::IsReadable(base));
  EXPECT_FALSE(testing::IsReadable(base + 2 * 256 * kKiB));
  const std::uint64_t before = arena->allocated_bytes();
  EXPECT_EQ(before, 16 * 256 * kKiB) << "a second mapping takes no memory";
}

TEST(ArenaTest, MapAtPopulatesThePageTables) {
  auto arena = MakeArena({.page_bytes = 64 * kKiB, .frames = 4, .huge_pages = false});
  ASSERT_NE(arena, nullptr);
  auto range = AddressRange::Reserve(64 * kKiB);
  ASSERT_TRUE(range.ok()) << range.status();
  ASSERT_TRUE(arena->MapAt(3, (*range)->base()).ok());
  std::ifstream smaps("/proc/self/smaps");
  char begin[32];
  std::snprintf(begin, sizeof(begin), "%lx-", reinterpret_cast<std::uintptr_t>((*range)->base()));
  std::string rss;
  bool inside = false;
  for (std::string line; std::getline(smaps, line) && rss.empty();) {
    if (line.rfind(begin, 0) == 0) inside = true;
    if (inside && line.rfind("Rss:", 0) == 0) rss = line;
  }
  EXPECT_NE(rss.find(" 64 kB"), std::string::npos) << rss;
}

TEST(ArenaTest, MapAtReportsWhatTheKernelRefuses) {
  auto arena = MakeArena({.page_bytes = 4096, .frames = 1});
  ASSERT_NE(arena, nullptr);
  auto range = AddressRange::Reserve(3 * 4096);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(arena->MapAt(0, (*range)->base() + 1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ArenaTest, MapsFromSeveralThreadsAtOnce) {
  constexpr std::uint32_t kFrames = 64;
  auto arena = MakeArena({.page_bytes = 16 * kKiB, .frames = kFrames});
  ASSERT_NE(arena, nullptr);
  auto range = AddressRange::Reserve(kFrames * 16 * kKiB);
  ASSERT_TRUE(range.ok()) << range.status();
  auto map_some = [&](std::uint32_t first) {
    for (std::uint32_t frame = first; frame < kFrames; frame += 2) {
      std::byte* address = (*range)->base() + (kFrames - 1 - frame) * 16 * kKiB;
      ASSERT_TRUE(arena->MapAt(frame, address).ok());
      Fill({address, 16 * kKiB}, static_cast<int>(frame) + 1);
    }
  };
  std::thread other([&] { map_some(1); });
  map_some(0);
  other.join();
  for (std::uint32_t frame = 0; frame < kFrames; ++frame) {
    EXPECT_TRUE(AllAre(arena->Frame(frame), static_cast<int>(frame) + 1)) << frame;
  }
}

TEST(ArenaTest, ChunksAreAnEighthRoundedUpToHugePagesAndAtMost256MiB) {
  // Chunks: 64 MiB / 8 = 8 MiB. 100 frames of 256 KiB / 8 = 3.1 MiB, rounded up to 4 MiB. Tiny
  // arenas have one chunk.
  EXPECT_EQ(MakeArena({.page_bytes = 256 * kKiB, .frames = 256})->frames_per_chunk(), 32u);
  EXPECT_EQ(MakeArena({.page_bytes = 256 * kKiB, .frames = 100})->frames_per_chunk(), 16u);
  EXPECT_EQ(MakeArena({.page_bytes = 4 * kKiB, .frames = 3})->frames_per_chunk(), 512u);
  EXPECT_EQ(MakeArena({.page_bytes = 8 * kMiB, .frames = 3})->frames_per_chunk(), 1u);
}

TEST(ArenaTest, ShrinkGivesWholeChunksBackAndGrowTakesThemAgain) {
  auto arena = MakeArena({.page_bytes = 256 * kKiB, .frames = 100});  // chunks of 16 frames
  ASSERT_NE(arena, nullptr);
  Fill(arena->Frame(0), 1);
  Fill(arena->Frame(31), 2);
  Fill(arena->Frame(32), 3);
  std::byte* given_back = arena->Frame(32).data();

  const auto stays = arena->Shrink(20);
  ASSERT_TRUE(stays.ok()) << stays.status();
  EXPECT_EQ(*stays, 32u);
  EXPECT_EQ(arena->frame_count(), 32u);
  EXPECT_EQ(arena->allocated_bytes(), 32 * 256 * kKiB);
  EXPECT_FALSE(testing::IsReadable(given_back));
  EXPECT_TRUE(AllAre(arena->Frame(0), 1));
  EXPECT_TRUE(AllAre(arena->Frame(31), 2));

  const auto grown = arena->Grow(97);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(*grown, 100u);
  EXPECT_EQ(arena->allocated_bytes(), 100 * 256 * kKiB);
  EXPECT_TRUE(AllAre(arena->Frame(31), 2));
  EXPECT_TRUE(AllAre(arena->Frame(32), 0)) << "frames given back lose their content";
  Fill(arena->Frame(99), 5);
  EXPECT_TRUE(AllAre(arena->Frame(99), 5));
}

TEST(ArenaTest, FramesThatTheSystemDoesNotTakeBackStay) {
  const std::string text = testing::RunInChild([]() -> std::string {
    auto arena = Arena::Create({.page_bytes = 2 * kMiB, .frames = 8, .touch_threads = 1});
    if (!arena.ok()) return arena.status().ToString();
    Fill((*arena)->Frame(7), 7);
    const std::string failed =
        testing::RefuseSystemCall(SYS_fallocate, EOPNOTSUPP, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    const absl::Status refused = (*arena)->Shrink(2).status();
    const bool kept = (*arena)->frame_count() == 8 && AllAre((*arena)->Frame(7), 7);
    return refused.ToString() + (kept ? ", kept" : ", lost");
  });
  EXPECT_EQ(text,
            "INTERNAL: fallocate PUNCH_HOLE of arena dram: EOPNOTSUPP (Operation not supported), "
            "kept");
}

TEST(ArenaTest, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  const std::string text = testing::RunInChild([]() -> std::string {
    const rlimit limit{kMiB, kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
    return Arena::Create({.page_bytes = kMiB, .frames = 2}).status().ToString();
  });
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: arena dram: its 2097152 bytes are a file without a name, and the "
            "limit of file sizes is 1048576 bytes (see ulimit -f)");
}

TEST(ArenaTest, ShrinkToNothingAndBack) {
  auto arena = MakeArena({.page_bytes = 2 * kMiB, .frames = 8});
  ASSERT_NE(arena, nullptr);
  ASSERT_EQ(*arena->Shrink(0), 0u);
  EXPECT_EQ(arena->allocated_bytes(), 0u);
  EXPECT_EQ(arena->huge_page_share(), 0.0);
  ASSERT_EQ(*arena->Grow(3), 3u);
  EXPECT_EQ(arena->allocated_bytes(), 6 * kMiB);
  EXPECT_EQ(arena->Grow(9).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*arena->Shrink(5), 3u) << "shrinking to more than there is changes nothing";
}

TEST(ArenaTest, IsOnHugePagesWhereTheKernelCollapses) {
  auto arena = MakeArena({.page_bytes = 256 * kKiB, .frames = 128});
  ASSERT_NE(arena, nullptr);
  if (arena->info().huge_page_reason.find("MADV_COLLAPSE refused") != std::string::npos) {
    GTEST_SKIP() << arena->info().huge_page_reason;
  }
  EXPECT_EQ(arena->info().huge_page_reason, "");
  EXPECT_GT(arena->huge_page_share(), 0.9);
}

TEST(ArenaTest, HasNoHugePagesWhenNoneAreAskedFor) {
  auto arena = MakeArena({.page_bytes = 256 * kKiB, .frames = 16, .huge_pages = false});
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(arena->huge_page_share(), 0.0);
  EXPECT_EQ(arena->info().huge_page_reason, "") << "not a fallback";
}

TEST(ArenaTest, SaysWhenBindingIsRefused) {
  // A node that this machine does not have: the kernel refuses, the arena works all the same.
  auto arena = MakeArena({.page_bytes = 4096, .frames = 4, .node = 63, .node_count = 64});
  ASSERT_NE(arena, nullptr);
  EXPECT_FALSE(arena->info().bound);
  EXPECT_NE(arena->info().binding_reason.find("mbind to node 63 refused"), std::string::npos)
      << arena->info().binding_reason;
  Fill(arena->Frame(3), 4);
  EXPECT_TRUE(AllAre(arena->Frame(3), 4));
}

TEST(ArenaTest, IsBoundToTheFirstNode) {
  auto arena = MakeArena({.page_bytes = 4096, .frames = 4, .node = 0});
  ASSERT_NE(arena, nullptr);
  EXPECT_TRUE(arena->info().bound) << arena->info().binding_reason;
  EXPECT_EQ(arena->info().binding_reason, "");
}

TEST(ArenaTest, AsksForNoBindingWithoutANode) {
  auto arena = MakeArena({.page_bytes = 4096, .frames = 4, .node = -1, .node_count = 64});
  ASSERT_NE(arena, nullptr);
  EXPECT_FALSE(arena->info().bound);
  EXPECT_EQ(arena->info().binding_reason, "") << "not a fallback";
}

TEST(ArenaTest, RefusesBadOptions) {
  for (const ArenaOptions& options :
       {ArenaOptions{.page_bytes = 0, .frames = 1},
        ArenaOptions{.page_bytes = 2048, .frames = 1},
        ArenaOptions{.page_bytes = 12288, .frames = 1},
        ArenaOptions{.page_bytes = 4096, .frames = 0},
        ArenaOptions{.page_bytes = 4096, .frames = 1, .node = -2},
        ArenaOptions{.page_bytes = 4096, .frames = 1, .node = 4096}}) {
    EXPECT_EQ(Arena::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ArenaTest, StaysOutOfCoreDumpsAndOfForkedChildren) {
  auto arena = MakeArena({.page_bytes = 64 * kKiB, .frames = 2});
  ASSERT_NE(arena, nullptr);
  auto range = AddressRange::Reserve(64 * kKiB);
  ASSERT_TRUE(range.ok()) << range.status();
  ASSERT_TRUE(arena->MapAt(1, (*range)->base()).ok());
  for (const std::byte* address : {arena->Frame(0).data(), (*range)->base()}) {
    const std::string flags = VmFlags(address);
    EXPECT_NE(flags.find(" dd"), std::string::npos) << flags;
    EXPECT_NE(flags.find(" dc"), std::string::npos) << flags;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(testing::IsReadable(address) ? 1 : 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(ArenaTest, IsNamedInTheMaps) {
  auto arena = MakeArena({.name = "named-arena", .page_bytes = 4096, .frames = 1});
  ASSERT_NE(arena, nullptr);
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("/memfd:sluice-named-arena"), std::string::npos);
}

TEST(ArenaDeathTest, AFrameThatWasGivenBackIsNotUsed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto arena = MakeArena({.page_bytes = 2 * kMiB, .frames = 2});
  ASSERT_NE(arena, nullptr);
  ASSERT_EQ(*arena->Shrink(1), 1u);
  EXPECT_DEATH(arena->Frame(1), "a frame is used only while the arena has it");
}

}  // namespace
}  // namespace sluice::numa
