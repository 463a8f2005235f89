// A file system that copies on write: a real btrfs, small and on a loop device, which takes root.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/file/file_descriptor.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::FreeBytes;
using testing::RunInChild;
using testing::UseEverySlot;

constexpr std::uint64_t kBtrfsBytes = std::uint64_t{330} << 20;
constexpr std::uint64_t kBtrfsPage = std::uint64_t{1} << 20;
constexpr std::uint64_t kGenerations = 4;

/// Runs `body` in a child with a small btrfs at `path`. "skip: ..." when there can be none.
std::string OnSmallBtrfs(const std::function<std::string(const std::string& path)>& body) {
  const testing::TempDirectory temp;
  return RunInChild([&] {
    const std::string why = testing::MountSmallBtrfs(temp.path(), kBtrfsBytes);
    return why.empty() ? body(temp.path()) : "skip: " + why;
  });
}

#define SLUICE_EXPECT_ON_SMALL_BTRFS(body)                                        \
  const std::string text = OnSmallBtrfs(body);                                    \
  if (text.starts_with("skip"))                                                   \
    GTEST_SKIP() << "needs root, loop devices, mkfs.btrfs and a kernel with it: " \
                 << text.substr(6);                                               \
  EXPECT_EQ(text, "")

/// Options of a store with four fifths of the free space, so that no second copy of it fits.
PageStoreOptions MostOf(const std::string& path) {
  return {.directory = path,
          .page_bytes = kBtrfsPage,
          .slots = static_cast<SlotIndex>(FreeBytes(path) / 5 * 4 / kBtrfsPage)};
}

std::string Overwrite(const PageStoreOptions& options) {
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  const auto store = PageStore::Create(options, workers);
  if (!store.ok()) return store.status().ToString();
  for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
    const std::string wrong = UseEverySlot(**store, options, generation);
    if (!wrong.empty()) return fmt::format("generation {}: {}", generation, wrong);
  }
  return {};
}

std::string OverwriteReservedSpace(const std::string& path) {
  PageStoreOptions options = MostOf(path);
  options.nocow = Use::kRequire;
  options.direct = Use::kRequire;
  for (const bool uring : {true, false}) {
    options.io_uring = uring ? Use::kAuto : Use::kOff;
    const std::string wrong = Overwrite(options);
    if (!wrong.empty()) return fmt::format("uring {}: {}", uring, wrong);
  }
  options.direct = Use::kOff;
  options.direct = Use::kAuto;
  const std::string wrong = Overwrite(options);
  return wrong.empty() ? wrong : "buffered: " + wrong;
}

TEST(SlowBtrfsStoreTest, EveryOverwriteFindsItsReservedSpace) {
  SLUICE_EXPECT_ON_SMALL_BTRFS(OverwriteReservedSpace);
}

/// `chattr +c`: new files of the directory are compressed, which excludes writing in place.
std::string StoreInACompressedDirectory(const std::string& path) {
  const FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  long flags = FS_COMPR_FL;
  if (ioctl(directory.get(), FS_IOC_SETFLAGS, &flags) != 0) return "chattr +c is refused";
  PageStoreOptions options = MostOf(path);
  options.nocow = Use::kRequire;
  return Overwrite(options);
}

TEST(SlowBtrfsStoreTest, CompressionIsTurnedOff) {
  SLUICE_EXPECT_ON_SMALL_BTRFS(StoreInACompressedDirectory);
}

/// Linux 6.15 to 6.18 write files with checksums through the page cache, though O_DIRECT is set.
bool KernelBuffersChecksums() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major == 6 && minor >= 15 && minor <= 18;
}

/// A store whose file cannot be given the flag.
std::string StoreWithoutTheFlag(const std::string& path) {
  std::string failed = testing::RefuseSystemCall(SYS_ioctl, EPERM, testing::Refuse::kEveryCall);
  if (!failed.empty()) return failed;
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  PageStoreOptions options = {.directory = path, .page_bytes = kBtrfsPage, .slots = 8};
  PageStoreStats stats;
  {
    const auto store = PageStore::Create(options, workers);
    if (!store.ok()) return store.status().ToString();
    stats = (*store)->stats();
    if (std::string wrong = UseEverySlot(**store, options, 1); !wrong.empty()) return wrong;
  }
  if (stats.nocow_reason != "btrfs copies pages on write, FS_IOC_GETFLAGS: EPERM") {
    return "nocow: " + stats.nocow_reason;
  }
  if (KernelBuffersChecksums() &&
      stats.direct_reason !=
          "the file system accepts O_DIRECT, but writes through the page cache") {
    return "direct: " + stats.direct_reason;
  }
  options.direct = Use::kRequire;
  if (PageStore::Create(options, workers).ok() != stats.direct) return "direct is not what it is";
  options.direct = Use::kAuto;
  options.nocow = Use::kRequire;
  const absl::Status refused = PageStore::Create(options, workers).status();
  return absl::IsFailedPrecondition(refused) ? "" : refused.ToString();
}

TEST(SlowBtrfsStoreTest, AFileWithoutTheFlagSaysSoAndCanBeForbidden) {
  SLUICE_EXPECT_ON_SMALL_BTRFS(StoreWithoutTheFlag);
}

}  // namespace
}  // namespace sluice::io
