// A file system that fills up: a real ext4, small and on a loop device, which takes root.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/page_store.h"
#include "io/spill_file.h"
#include "tests/support/child_process.h"
#include "tests/support/page_buffer.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::FillUp;
using testing::FreeBytes;
using testing::PageBuffer;
using testing::RunInChild;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kFileSystemBytes = 64 * kMiB;
constexpr std::uint64_t kFullPage = 65536;
constexpr SlotIndex kFullSlots = 256;  // 16 MiB
constexpr std::uint64_t kSeed = 20;

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

absl::Status Wait(const std::function<void(DoneFn)>& start) {
  auto done = std::make_shared<std::promise<absl::Status>>();
  start([done](absl::Status status) { done->set_value(std::move(status)); });
  return done->get_future().get();
}

/// What is wrong; nothing when every slot gives back what is written into it, in any order.
std::string UseEverySlot(PageStore& store, std::uint64_t generation) {
  std::vector<SlotIndex> order(kFullSlots);
  for (SlotIndex slot = 0; slot < kFullSlots; ++slot) order[slot] = slot;
  std::mt19937_64 random(kSeed + generation);
  std::shuffle(order.begin(), order.end(), random);
  PageBuffer page(kFullPage);
  for (const SlotIndex slot : order) {
    page.Fill(slot + generation * kFullSlots);
    const absl::Status wrote = Wait([&](DoneFn done) {
      store.Write(slot, {1, slot, generation}, page.span(), std::move(done));
    });
    if (!wrote.ok()) return fmt::format("write of slot {}: {}", slot, wrote.ToString());
  }
  for (const SlotIndex slot : order) {
    const absl::Status read = Wait([&](DoneFn done) {
      store.Read(slot, {1, slot, generation}, page.span(), std::move(done));
    });
    if (!read.ok()) return fmt::format("read of slot {}: {}", slot, read.ToString());
    if (!page.Holds(slot + generation * kFullSlots)) {
      return fmt::format("slot {}: wrong bytes (seed {})", slot, kSeed + generation);
    }
  }
  return {};
}

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
    options.disable_io_uring = !uring;
    options.disable_direct = !direct;
    const auto store = PageStore::Create(options, workers);
    if (!store.ok()) return store.status().ToString();
    if (!FillUp(path + "/others")) return "the file system does not fill up";
    if (FreeBytes(path) != 0) return fmt::format("{} bytes are left", FreeBytes(path));
    for (std::uint64_t generation = 1; generation <= 2; ++generation) {
      const std::string wrong = UseEverySlot(**store, generation);
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
  constexpr std::uint64_t kTables = kMiB / 4;  // what ext4 may need to find the file's blocks
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

TEST(FullFileSystemTest, WhatIsToStayFreeStaysFree) { SLUICE_EXPECT_ON_SMALL_EXT4(KeepSpaceFree); }

/// Works until it is killed; says once, through `fd`, that it has begun.
[[noreturn]] void WorkUntilKilled(const std::string& path, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = PageStore::Create(OptionsIn(path), workers);
  if (!store.ok() || !UseEverySlot(**store, 1).empty() || write(fd, "x", 1) != 1) _exit(1);
  std::uint64_t generation = 2;
  while (UseEverySlot(**store, generation).empty()) ++generation;
  _exit(1);
}

std::string KillAUser(const std::string& path) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "pipe";
  const pid_t user = fork();
  if (user == 0) WorkUntilKilled(path, ends[1]);
  close(ends[1]);
  char begun = 0;
  const bool works = read(ends[0], &begun, 1) == 1;
  close(ends[0]);
  kill(user, SIGKILL);
  int status = 0;
  waitpid(user, &status, 0);
  if (!works) return "the user of the store did not begin";
  return WIFSIGNALED(status) ? "" : "the user of the store was not killed";
}

std::ptrdiff_t Entries(const std::string& path) {
  return std::distance(std::filesystem::directory_iterator(path), {});
}

std::string StartAfterAKill(const std::string& path) {
  constexpr auto kPatience = std::chrono::seconds(60);  // the kernel lets go of a ring in its time
  const std::uint64_t before = FreeBytes(path);
  const std::ptrdiff_t entries = Entries(path);
  for (int i = 0; i < 3; ++i) {
    if (const std::string wrong = KillAUser(path); !wrong.empty()) return wrong;
    if (Entries(path) != entries) return "a file is left";
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (FreeBytes(path) != before) {
      if (std::chrono::steady_clock::now() > deadline) return "space is not given back";
      std::this_thread::yield();
    }
  }
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = PageStore::Create(OptionsIn(path), workers);
  return store.ok() ? UseEverySlot(**store, 1) : store.status().ToString();
}

TEST(FullFileSystemTest, AKilledProcessLeavesNothing) {
  SLUICE_EXPECT_ON_SMALL_EXT4(StartAfterAKill);
}

}  // namespace
}  // namespace sluice::io
