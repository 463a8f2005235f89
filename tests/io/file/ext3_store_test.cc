// A file system without fallocate(2): a real ext3, small and on a loop device, which takes root.
#include <chrono>
#include <filesystem>
#include <functional>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::FreeBytes;

constexpr std::uint64_t kExt3Bytes = std::uint64_t{96} << 20;
constexpr std::uint64_t kExt3Page = 65536;
constexpr SlotIndex kExt3Slots = 512;  // 32 MiB

PageStoreOptions OptionsOnExt3(const std::string& path) {
  return {.directory = path, .page_bytes = kExt3Page, .slots = kExt3Slots};
}

/// Runs `body` in a child with a small ext3 at `path`. "skip: ..." when there can be none.
std::string OnSmallExt3(const std::function<std::string(const std::string& path)>& body) {
  const testing::TempDirectory temp;
  return testing::RunInChild([&] {
    const std::string why = testing::MountSmallExt3(temp.path(), kExt3Bytes);
    return why.empty() ? body(temp.path()) : "skip: " + why;
  });
}

#define SLUICE_EXPECT_ON_SMALL_EXT3(body)                                      \
  const std::string text = OnSmallExt3(body);                                  \
  if (text.starts_with("skip"))                                                \
    GTEST_SKIP() << "needs root, loop devices, mkfs.ext3: " << text.substr(6); \
  EXPECT_EQ(text, "")

/// Overwrites every page of a store on a file system that others fill up.
std::string FillUpAroundAFilledStore(const std::string& path) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  for (const auto& [uring, direct] : {std::pair(true, true), {false, true}, {false, false}}) {
    PageStoreOptions options = OptionsOnExt3(path);
    options.io_uring = uring ? Use::kAuto : Use::kOff;
    options.direct = direct ? Use::kAuto : Use::kOff;
    const auto store = PageStore::Create(options, workers);
    if (!store.ok()) return store.status().ToString();
    const PageStoreStats stats = (*store)->stats();
    if (stats.reserved_space_reason != "fallocate is not supported: EOPNOTSUPP") {
      return "reserved: " + stats.reserved_space_reason;
    }
    if (stats.direct != direct) return "direct: " + stats.direct_reason;
    if (!testing::FillUp(path + "/others")) return "the file system does not fill up";
    for (std::uint64_t generation = 1; generation <= 2; ++generation) {
      const std::string wrong = testing::UseEverySlot(**store, options, generation);
      if (!wrong.empty()) return fmt::format("uring {} direct {}: {}", uring, direct, wrong);
    }
    std::filesystem::remove(path + "/others");
  }
  return {};
}

TEST(SlowExt3StoreTest, AFilledStoreHasItsSpaceWhateverOthersTake) {
  SLUICE_EXPECT_ON_SMALL_EXT3(FillUpAroundAFilledStore);
}

std::string RefuseMoreThanExt3Has(const std::string& path) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const std::uint64_t before = FreeBytes(path);
  PageStoreOptions options = OptionsOnExt3(path);
  options.reserved_space = Use::kRequire;
  const absl::Status required = PageStore::Create(options, workers).status();
  if (!absl::IsFailedPrecondition(required)) return "required: " + required.ToString();
  options.reserved_space = Use::kAuto;
  // All that is free, without the blocks that tell where the file's blocks are: noticed at the end.
  for (const std::uint64_t bytes : {before, 2 * before}) {
    options.slots = static_cast<SlotIndex>(bytes / kExt3Page);
    const absl::Status refused = PageStore::Create(options, workers).status();
    if (!absl::IsResourceExhausted(refused)) return "too much: " + refused.ToString();
    if (refused.message().find("ENOSPC") == absl::string_view::npos) return refused.ToString();
    if (!testing::BecomesFree(path, before, std::chrono::seconds(60))) return "space is kept";
  }
  return {};
}

TEST(SlowExt3StoreTest, MoreThanIsFreeIsRefusedAndNothingIsKept) {
  SLUICE_EXPECT_ON_SMALL_EXT3(RefuseMoreThanExt3Has);
}

std::string KillDuringTheFill(const std::string& path) {
  const std::uint64_t before = FreeBytes(path);
  const auto work = [&](const std::function<void()>& begun) {
    base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
    PageStoreOptions options = OptionsOnExt3(path);
    options.on_fill = [&](const FillProgress&) { begun(); };
    for (;;) static_cast<void>(PageStore::Create(options, workers));
  };
  const std::string wrong = testing::KillAtWork(work, [] { return std::string(); });
  if (!wrong.empty()) return wrong;
  return testing::BecomesFree(path, before, std::chrono::seconds(60)) ? "" : "space is kept";
}

TEST(SlowExt3StoreTest, AProcessThatIsKilledDuringTheFillLeavesNothing) {
  SLUICE_EXPECT_ON_SMALL_EXT3(KillDuringTheFill);
}

}  // namespace
}  // namespace sluice::io
