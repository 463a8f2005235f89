// Each fallback is announced, or refused where it is forbidden; nothing is left behind then.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/threads_left.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;

std::ptrdiff_t EntriesOf(const std::string& directory) {
  using Iterator = std::filesystem::directory_iterator;
  return std::distance(Iterator(directory), Iterator());
}

/// The error of Create, and whether it left something behind. Failures in a child show in its text
/// alone.
std::string Refusal(const RuntimeFixture& runtime) {
  const auto threads = testing::ThreadIds();
  const std::ptrdiff_t files = EntriesOf("/proc/self/fd");
  const auto made = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
  if (made.ok()) return "made";
  const bool clean = EntriesOf(runtime.options.io.directory) == 0 &&
                     EntriesOf("/proc/self/fd") == files && testing::ThreadsLeft(threads) == 0;
  return made.status().ToString() + (clean ? "" : " (threads or files are left)");
}

/// Message of Create if huge pages are turned off.
std::string WithoutHugePages(const std::function<void(RuntimeOptions&)>& change) {
  return testing::RunInChild([&]() -> std::string {
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return "prctl refused";
    RuntimeFixture runtime;
    runtime.options.page_bytes = 256_KiB;
    runtime.options.hbm_bytes = 1_MiB;  // a size too small for any
    runtime.options.dram_bytes = 8_MiB;
    runtime.options.nvme_bytes = 16_MiB;
    change(runtime.options);
    return Refusal(runtime);
  });
}

TEST(ForbiddenFallbackTest, SmallPagesOfDram) {
  EXPECT_EQ(WithoutHugePages([](RuntimeOptions&) {}), "made");
  EXPECT_EQ(
      WithoutHugePages([](RuntimeOptions& options) { options.memory.huge_pages = Use::kRequire; }),
      "FAILED_PRECONDITION: memory on 2 MiB pages is required but refused: 0 % of dram is on "
      "2 MiB pages: MADV_COLLAPSE refused for 4 of 4 units of 2 MiB: EINVAL; "
      "memory.huge_pages = \"auto\" allows 4 KiB pages for the rest");
}

TEST(ForbiddenFallbackTest, SmallPagesOfTheEmulatedHbm) {
  const std::string text = WithoutHugePages([](RuntimeOptions& options) {
    options.memory.huge_pages = Use::kRequire;
    options.hbm_bytes = 8_MiB;
    options.dram_bytes = 1536_KiB;
  });
  EXPECT_NE(text.find("refused: 0 % of the emulated hbm is on 2 MiB pages"), std::string::npos)
      << text;
}

TEST(ForbiddenFallbackTest, MemoryThatIsNotBoundToItsNode) {
  RuntimeFixture runtime;
  runtime.hooks.memory_nodes = {{.index = 63, .node_count = 64}};
  runtime.Start();
  static_cast<void>(runtime->GetStats());
  ASSERT_EQ(runtime.listener.fallbacks().size(), 1u);
  EXPECT_EQ(runtime.listener.fallbacks()[0].what, "numa_binding");
  EXPECT_EQ(runtime.listener.fallbacks()[0].reason.substr(0, 24), "mbind to node 63 refused");
  runtime.Stop();
  runtime.options.memory.numa_binding = Use::kRequire;
  const std::string text = Refusal(runtime);
  EXPECT_TRUE(
      text.starts_with("FAILED_PRECONDITION: memory bound to its NUMA node is required but "
                       "refused: mbind to node 63 refused: E"))
      << text;
  EXPECT_TRUE(text.ends_with("; memory.numa_binding = \"auto\" allows memory of any node")) << text;
}

TEST(ForbiddenFallbackTest, FeaturesThatAreOffAreNotTried) {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 256_KiB;
  runtime.options.hbm_bytes = 8_MiB;
  runtime.options.dram_bytes = 8_MiB;
  runtime.options.nvme_bytes = 16_MiB;
  runtime.options.memory = {
      .huge_pages = Use::kOff, .numa_binding = Use::kOff, .even_split = Use::kOff};
  runtime.hooks.memory_nodes = {{.index = 63, .node_count = 64, .available_bytes = 6 << 20},
                                {.index = 62, .node_count = 64}};
  runtime.Start();
  EXPECT_EQ(runtime->GetStats().tiers.at("dram").huge_page_share, 0);
  EXPECT_EQ(runtime->GetStats().tiers.at("hbm").huge_page_share, 0);
  std::string told;
  for (const FallbackEvent& event : runtime.listener.fallbacks()) {
    told += event.what + ": " + event.reason + "; ";
  }
  EXPECT_EQ(told,
            "numa_binding: off by option; numa_split: off by option; "
            "huge_pages: 0 % of dram is on 2 MiB pages: off by option; "
            "huge_pages: 0 % of the emulated hbm is on 2 MiB pages: off by option; ")
      << "mbind to nodes that do not exist would be refused";
}

TEST(ForbiddenFallbackTest, AnUnevenSplit) {
  RuntimeFixture runtime;
  runtime.hooks.memory_nodes = {{.index = 0}, {.index = 0, .available_bytes = 10 * kPage}};
  EXPECT_EQ(Refusal(runtime), "made");
  runtime.options.memory.even_split = Use::kRequire;
  EXPECT_EQ(
      Refusal(runtime),
      "FAILED_PRECONDITION: an even share of dram on every NUMA node is required but refused: "
      "node 0 has 40 KiB available, an even share is 64 KiB; memory.even_split = \"auto\" "
      "allows 88 KiB on node 0, 40 KiB on node 0");
}

TEST(ForbiddenFallbackTest, ThreadsInsteadOfIoUring) {
  RuntimeFixture runtime;
  runtime.options.io.io_uring = Use::kOff;
  EXPECT_EQ(Refusal(runtime), "made");
  EXPECT_EQ(runtime.log.Count("io_uring is not in use (off by option); "), 1);
}

/// The event is no fallback, as nothing replaces the registration. The listener is told
/// nevertheless.
TEST(ForbiddenFallbackTest, MemoryThatTheRingDoesNotKnowInAdvance) {
  const std::string text = testing::RunInChild([]() -> std::string {
    const std::string failed = testing::LimitLockedMemory(1 << 20);
    if (!failed.empty()) return failed;
    RuntimeFixture runtime;
    runtime.options.page_bytes = 256_KiB;
    runtime.options.hbm_bytes = 1_MiB;
    runtime.options.dram_bytes = 8_MiB;
    runtime.options.nvme_bytes = 16_MiB;
    runtime.options.io.io_uring = Use::kRequire;
    const auto made = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
    if (!made.ok()) return made.status().ToString();
    return fmt::format("{}",
                       runtime.log.Count("io_uring knows 0 B of the memory of dram in advance, the "
                                         "rest is pinned at each request: ENOMEM"));
  });
  if (text.starts_with("FAILED_PRECONDITION: io_uring is required")) GTEST_SKIP() << text;
  EXPECT_EQ(text, "1");
}

TEST(ForbiddenFallbackTest, BufferedFiles) {
  RuntimeFixture runtime;
  runtime.options.io.direct = Use::kOff;
  EXPECT_EQ(Refusal(runtime), "made");
  const testing::TempDirectory memory("/dev/shm");
  runtime.options.io.directory = memory.path();
  runtime.options.io.direct = Use::kRequire;
  const std::string text = Refusal(runtime);
  EXPECT_TRUE(
      text.ends_with("O_DIRECT is required but refused: the file system is memory (tmpfs); "
                     "io.direct = \"auto\" allows buffered I/O"))
      << text;
}

TEST(ForbiddenFallbackTest, PagesThatAreCopiedOnWriteAreToldOnce) {
  testing::StoreFaults faults;
  faults.SayCopied("zfs copies pages on write");
  RuntimeFixture runtime;
  runtime.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  EXPECT_FALSE(runtime->GetStats().io.nocow);
  ASSERT_EQ(runtime.listener.fallbacks().size(), 1u);
  const FallbackEvent event = runtime.listener.fallbacks()[0];
  EXPECT_EQ(event.what, "nocow");
  EXPECT_EQ(event.reason, "zfs copies pages on write");
  EXPECT_EQ(event.chosen, "copies, for which space may run out");
  EXPECT_EQ(runtime->GetStats().fallbacks.size(), 1u);
  runtime.Stop();
}

/// Message of a Runtime if fallocate(2) fails as on ext3, NFSv3 and FUSE.
std::string WithoutReservations(bool required) {
  return testing::RunInChild([&]() -> std::string {
    const std::string failed =
        testing::RefuseSystemCall(SYS_fallocate, EOPNOTSUPP, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    RuntimeFixture runtime;
    runtime.options.io.reserved_space = required ? Use::kRequire : Use::kAuto;
    if (required) return Refusal(runtime);
    runtime.Start();
    const Stats stats = runtime->GetStats();
    std::string text = stats.io.reserved_space ? "reserved" : "filled";
    for (const FallbackEvent& event : runtime.listener.fallbacks()) {
      if (event.what == "reserved_space") text += "; " + event.reason + "; " + event.chosen;
    }
    text +=
        fmt::format("; {} lines", runtime.log.Count("the files are written in full first: 0 B"));
    runtime.Stop();
    return text;
  });
}

TEST(ForbiddenFallbackTest, FilesThatAreWrittenInFull) {
  EXPECT_EQ(WithoutReservations(/*required=*/false),
            "filled; fallocate is not supported: EOPNOTSUPP; spill files written in full first; "
            "1 lines");
  const std::string text = WithoutReservations(/*required=*/true);
  EXPECT_TRUE(text.starts_with("FAILED_PRECONDITION: spill directory ")) << text;
  EXPECT_TRUE(
      text.ends_with("reserved space is required but refused: fallocate is not supported: "
                     "EOPNOTSUPP; io.reserved_space = \"auto\" allows to write the file in "
                     "full first"))
      << text;
}

TEST(ForbiddenFallbackTest, AllMayBeForbiddenWhereNoneIsNeeded) {
  RuntimeFixture runtime;
  runtime.options.memory = {
      .huge_pages = Use::kRequire, .numa_binding = Use::kRequire, .even_split = Use::kRequire};
  runtime.hooks.memory_nodes.resize(3);
  EXPECT_EQ(Refusal(runtime), "made");
}

/// Budgets that shrink, and grow again onto memory that lacks something by then.
std::string GrowInVain(RuntimeFixture& runtime, const std::function<bool()>& take_away) {
  const auto set = [&](TierId tier, Bytes bytes) {
    return std::string(base::ToStd(runtime->SetBudget(tier, bytes).message()));
  };
  runtime.options.page_bytes = 2_MiB;
  runtime.options.dram_bytes = 32_MiB;
  runtime.options.hbm_bytes = 32_MiB;
  runtime.options.nvme_bytes = 32_MiB;
  runtime.Start();
  static_cast<void>(runtime->GetStats());
  if (!runtime.listener.fallbacks().empty()) return "lacks something from the start";
  std::string text = set(kDram0, 16_MiB) + set(kHbm0, 16_MiB);
  if (!take_away()) return "cannot take away";
  for (const TierId tier : {kDram0, kHbm0}) {
    const std::string name(ToString(tier.kind));
    text += set(tier, 32_MiB) + "\n";
    const TierStats stats = runtime->GetStats().tiers.at(name);
    text += ToString(Bytes(stats.budget_bytes)) + "\n";
    if (stats.arena_bytes != stats.budget_bytes) text += "of which not all was given back\n";
  }
  for (const FallbackEvent& event : runtime.listener.fallbacks()) text += event.what;
  return text;
}

TEST(ForbiddenFallbackTest, AGrowthOntoSmallPagesIsRefusedAndTheBudgetStays) {
  const std::string text = testing::RunInChild([] {
    RuntimeFixture runtime;
    runtime.options.memory.huge_pages = Use::kRequire;
    return GrowInVain(runtime, [] { return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0; });
  });
  if (text.starts_with("lacks")) GTEST_SKIP() << text;
  EXPECT_TRUE(text.starts_with("memory on 2 MiB pages is required but refused: 50 % of dram is on"))
      << text;
  EXPECT_NE(text.find("\n16 MiB\nmemory on 2 MiB pages is required but refused: 50 % of the emul"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("4 KiB pages for the rest\n16 MiB\n")) << text;
}

std::string GrowUnbound(bool required) {
  return testing::RunInChild([required] {
    RuntimeFixture runtime;
    runtime.options.memory.numa_binding = required ? Use::kRequire : Use::kAuto;
    runtime.hooks.memory_nodes = {{.index = 0, .node_count = 2}};
    return GrowInVain(runtime, [] {
      return testing::RefuseSystemCall(SYS_mbind, EPERM, testing::Refuse::kEveryCall).empty();
    });
  });
}

TEST(ForbiddenFallbackTest, AGrowthOntoUnboundMemoryIsRefusedAndTheBudgetStays) {
  const std::string text = GrowUnbound(/*required=*/true);
  if (text.starts_with("lacks")) GTEST_SKIP() << text;
  EXPECT_TRUE(
      text.starts_with("memory bound to its NUMA node is required but refused: mbind to "
                       "node 0 refused: EPERM; memory.numa_binding = \"auto\" allows "
                       "memory of any node\n16 MiB\n"))
      << text;
  EXPECT_TRUE(text.ends_with("\n\n32 MiB\n")) << "the emulated hbm is bound to no node: " << text;
}

TEST(ForbiddenFallbackTest, AGrowthOntoUnboundMemoryIsAnnouncedWhereItIsAllowed) {
  const std::string text = GrowUnbound(/*required=*/false);
  if (text.starts_with("lacks")) GTEST_SKIP() << text;
  EXPECT_EQ(text, "\n32 MiB\n\n32 MiB\nnuma_binding");
}

}  // namespace
}  // namespace sluice
