// A file system that fills up: a real ext4, small and on a loop device, which takes root.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/file/spill_file.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::FillUp;
using testing::FreeBytes;
using testing::RunInChild;
using testing::UseEverySlot;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kFileSystemBytes = 64 * kMiB;
constexpr std::uint64_t kFullPage = 65536;
constexpr SlotIndex kFullSlots = 256;  // 16 MiB

PageStoreOptions OptionsIn(const std::string& path) {
  return {.directory = path, .page_bytes = kFullPage, .slots = kFullSlots};
}

/// Runs `body` in a child with a small ext4 at `path`. "skip: ..." when there can be none.
std::string OnSmallExt4(const std::function<std::string(const std::string& path)>& body) {
  const testing::TempDirectory temp;
  return RunInChild([&] {
    const std::string why = testing::MountSmallExt4(temp.path(), kFileSystemBytes);
    return why.empty() ? body(temp.path()) : "skip: " + why;
  });
}

#define SLUICE_EXPECT_ON_SMALL_EXT4(body)                                      \
  const std::string text = OnSmallExt4(body);                                  \
  if (text.starts_with("skip"))                                                \
    GTEST_SKIP() << "needs root, loop devices, mkfs.ext4: " << text.substr(6); \
  EXPECT_EQ(text, "")

std::string RefuseMoreThanIsFree(const std::string& path) {
  const std::uint64_t before = FreeBytes(path);
  auto directory = OpenSpillDirectory(path);
  if (!directory.ok()) return directory.status().ToString();
  FileDescriptor still_open;  // the file would give everything back if it went
  bool kept_pieces = false;
  const auto allocate = [&](int fd, std::uint64_t bytes) {
    still_open = FileDescriptor(dup(fd));
    const int error = fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    kept_pieces = FreeBytes(path) < before;
    return error;
  };
  const absl::Status refused =
      SpillFile::Create(*directory, {.bytes = kFileSystemBytes, .allocate = allocate}).status();
  if (!absl::IsResourceExhausted(refused)) return "file: " + refused.ToString();
  if (!kept_pieces) return "this ext4 gives pieces back itself: the test shows nothing";
  if (FreeBytes(path) != before) return "pieces of the file are kept";
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  PageStoreOptions options = OptionsIn(path);
  options.slots = kFileSystemBytes / kFullPage;
  options.files = 4;  // most of which fit
  const absl::Status store = PageStore::Create(options, workers).status();
  if (!absl::IsResourceExhausted(store)) return "store: " + store.ToString();
  if (FreeBytes(path) != before) return "pieces of the store are kept";
  options.slots = kFullSlots;
  return PageStore::Create(options, workers).status().ok() ? "" : "less does not fit either";
}

TEST(FullFileSystemTest, MoreThanIsFreeIsRefusedAndNothingIsKept) {
  SLUICE_EXPECT_ON_SMALL_EXT4(RefuseMoreThanIsFree);
}

std::string FillUpAroundAStore(const std::string& path) {
  base::WorkerPool workers({.threads = 2, .name = "test-worker", .cpus = {}});
  for (const auto& [uring, direct] : {std::pair(true, true), {false, true}, {false, false}}) {
    PageStoreOptions options = OptionsIn(path);
    options.io_uring = uring ? Use::kAuto : Use::kOff;
    options.direct = direct ? Use::kAuto : Use::kOff;
    const auto store = PageStore::Create(options, workers);
    if (!store.ok()) return store.status().ToString();
    if (!FillUp(path + "/others")) return "the file system does not fill up";
    if (FreeBytes(path) != 0) return fmt::format("{} bytes are left", FreeBytes(path));
    for (std::uint64_t generation = 1; generation <= 2; ++generation) {
      const std::string wrong = UseEverySlot(**store, options, generation);
      if (!wrong.empty()) return fmt::format("uring {} direct {}: {}", uring, direct, wrong);
    }
    std::filesystem::remove(path + "/others");
  }
  return {};
}

TEST(FullFileSystemTest, AStoreHasItsSpaceWhateverOthersTake) {
  SLUICE_EXPECT_ON_SMALL_EXT4(FillUpAroundAStore);
}

std::string KeepSpaceFree(const std::string& path) {
  constexpr std::uint64_t kKept = 8 * kMiB;
  constexpr std::uint64_t kTables =
      kMiB / 4;  // bytes that ext4 may need for the file's block tables
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const std::uint64_t before = FreeBytes(path);
  PageStoreOptions options = OptionsIn(path);
  options.keep_free_bytes = kKept;
  options.slots = static_cast<SlotIndex>((before - kKept) / kFullPage + 1);
  const absl::Status refused = PageStore::Create(options, workers).status();
  if (!absl::IsResourceExhausted(refused)) return "one too many: " + refused.ToString();
  if (FreeBytes(path) != before) return "space was taken";
  options.slots = static_cast<SlotIndex>((before - kKept - kTables) / kFullPage);
  const auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  return FreeBytes(path) >= kKept ? "" : fmt::format("{} bytes stay free", FreeBytes(path));
}

TEST(FullFileSystemTest, SpaceToKeepFreeStaysFree) { SLUICE_EXPECT_ON_SMALL_EXT4(KeepSpaceFree); }

std::ptrdiff_t Entries(const std::string& path) {
  return std::distance(std::filesystem::directory_iterator(path), {});
}

std::string StartAfterAKill(const std::string& path) {
  const std::uint64_t before = FreeBytes(path);
  const std::ptrdiff_t entries = Entries(path);
  const auto work = [&](const std::function<void()>& begun) {
    testing::UseAStoreForEver(OptionsIn(path), begun);
  };
  const auto look = [] { return std::string(); };
  for (int i = 0; i < 3; ++i) {
    if (const std::string wrong = testing::KillAtWork(work, look); !wrong.empty()) return wrong;
    if (Entries(path) != entries) return "a file is left";
    if (!testing::BecomesFree(path, before, std::chrono::seconds(60))) {
      return "space is not given back";
    }
  }
  return testing::UseANewStore(OptionsIn(path));
}

TEST(FullFileSystemTest, AKilledProcessLeavesNothing) {
  SLUICE_EXPECT_ON_SMALL_EXT4(StartAfterAKill);
}

}  // namespace
}  // namespace sluice::io
