#include "io/file/spill_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

SpillDirectory Open(const std::string& path) {
  auto directory = OpenSpillDirectory(path);
  EXPECT_THAT(directory, IsOk());
  return *std::move(directory);
}

struct stat Stat(const SpillFile& file) {
  struct stat info {};
  EXPECT_EQ(fstat(file.file().fd, &info), 0);
  return info;
}

TEST(SpillFileTest, IsNamelessPrivateAndReservedInFull) {
  const testing::TempDirectory temp;
  const SpillDirectory directory = Open(temp.path());
  for (const bool disable_tmpfile : {false, true}) {
    const auto file =
        SpillFile::Create(directory, {.bytes = kBytes, .disable_tmpfile = disable_tmpfile});
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ(temp.entries(), 0);
    const struct stat info = Stat(**file);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
    EXPECT_EQ(info.st_nlink, 0U);
    EXPECT_EQ(info.st_size, static_cast<off_t>(kBytes));
    EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, kBytes);
    EXPECT_EQ(fcntl((*file)->file().fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

/// NFS keeps a removed file under a name of its own as long as it is open.
TEST(SpillFileTest, ARemovedFileMayHaveOneHiddenName) {
  const testing::TempDirectory temp;
  const SpillDirectory directory = Open(temp.path());
  const auto create = [&](bool disable_tmpfile, std::uint64_t names) {
    return SpillFile::Create(directory,
                             {.bytes = kBytes,
                              .disable_tmpfile = disable_tmpfile,
                              .ask_names = [=](int) { return names; }})
        .status();
  };
  EXPECT_THAT(create(/*disable_tmpfile=*/true, 1), IsOk());
  EXPECT_THAT(create(/*disable_tmpfile=*/true, 2), IsStatus(Code::kInternal, "has a name"));
  EXPECT_THAT(create(/*disable_tmpfile=*/false, 1), IsStatus(Code::kInternal, "has a name"));
}

TEST(SpillFileTest, ReadsAsZeros) {
  const testing::TempDirectory temp;
  const auto file = SpillFile::Create(Open(temp.path()), {.bytes = kBytes});
  ASSERT_THAT(file, IsOk());
  alignas(4096) std::array<char, 4096> block;
  block.fill('x');
  ASSERT_EQ(pread((*file)->file().fd, block.data(), block.size(), 4096), 4096);
  EXPECT_EQ(std::count(block.begin(), block.end(), '\0'), 4096);
}

TEST(SpillFileTest, DirectMatchesTheFlagOfTheFile) {
  const testing::TempDirectory temp;
  const SpillDirectory directory = Open(temp.path());
  for (const bool disable : {false, true}) {
    const auto file =
        SpillFile::Create(directory, {.bytes = kBytes, .direct = disable ? Use::kOff : Use::kAuto});
    ASSERT_THAT(file, IsOk());
    const bool flag = (fcntl((*file)->file().fd, F_GETFL) & O_DIRECT) != 0;
    EXPECT_EQ((*file)->direct(), flag);
    EXPECT_EQ((*file)->direct_reason().empty(), flag);
    if (disable) {
      EXPECT_EQ((*file)->direct_reason(), "off by option");
    }
  }
}

TEST(SpillFileTest, MemoryFileSystemIsBufferedAndSaysSo) {
  struct statfs info {};
  if (statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS_MAGIC) {
    GTEST_SKIP() << "/dev/shm is no tmpfs here";
  }
  const testing::TempDirectory temp("/dev/shm");
  const auto file = SpillFile::Create(Open(temp.path()), {.bytes = kBytes});
  ASSERT_THAT(file, IsOk());
  EXPECT_FALSE((*file)->direct());
  EXPECT_EQ((*file)->direct_reason(), "the file system is memory (tmpfs)");
  EXPECT_THAT(
      SpillFile::Create(Open(temp.path()), {.bytes = kBytes, .direct = Use::kRequire}),
      IsStatus(Code::kFailedPrecondition, "O_DIRECT is required but refused: the file system"));
}

TEST(SpillFileTest, SpaceIsNotReservedWhereThatIsOff) {
  const testing::TempDirectory temp;
  const auto file =
      SpillFile::Create(Open(temp.path()), {.bytes = kBytes, .reserved_space = Use::kOff});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ((*file)->reserved_space_reason(), "off by option");
  struct stat info {};
  ASSERT_EQ(fstat((*file)->file().fd, &info), 0);
  EXPECT_EQ(info.st_size, kBytes);
  EXPECT_LE(info.st_blocks * 512, 4096) << "sparse, but for what the probe of O_DIRECT writes";
}

TEST(SpillFileTest, TheFlagOfBtrfsIsLeftAloneWhereThatIsOff) {
  const testing::TempDirectory temp;
  bool asked = false;
  const auto file = SpillFile::Create(
      Open(temp.path()), {.bytes = kBytes, .nocow = Use::kOff, .ask_nocow = [&](int fd) {
                            asked = true;
                            return AskForNocow(fd);
                          }});
  ASSERT_THAT(file, IsOk());
  EXPECT_FALSE(asked);
  EXPECT_EQ((*file)->nocow_reason(), WhyCopied(ReadNocow((*file)->file().fd), kOffByOption));
}

TEST(SpillFileTest, MoreThanAnyFileMayHoldIsExhausted) {
  const testing::TempDirectory temp;
  const auto file = SpillFile::Create(Open(temp.path()), {.bytes = std::uint64_t{1} << 55});
  EXPECT_THAT(file, IsStatus(Code::kResourceExhausted, "spill directory " + temp.path()));
  EXPECT_THAT(file, IsStatus(Code::kResourceExhausted, "free"));
  EXPECT_EQ(temp.entries(), 0);
}

TEST(SpillFileTest, SpaceThatIsToStayFreeIsNotTaken) {
  const testing::TempDirectory temp;
  const SpillDirectory directory = Open(temp.path());
  struct statvfs info {};
  ASSERT_EQ(fstatvfs(directory.fd.get(), &info), 0);
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  const auto refused = CheckKeepsFree(directory, kBytes, free);
  EXPECT_THAT(refused, IsStatus(Code::kResourceExhausted, "are to stay free"));
  EXPECT_THAT(refused, IsStatus(Code::kResourceExhausted, "tiers.nvme.keep_free"));
  EXPECT_THAT(CheckKeepsFree(directory, kBytes, UINT64_MAX),
              IsStatus(Code::kResourceExhausted, "are to stay free"));
  EXPECT_THAT(CheckKeepsFree(directory, kBytes, free / 2), testing::IsOk());
  EXPECT_EQ(temp.entries(), 0);
}

TEST(SpillFileTest, SpaceOfAFailedAllocationIsGivenBackAtOnce) {
  const testing::TempDirectory temp;
  FileDescriptor still_open;  // a child that was forked meanwhile has such a descriptor
  const auto fail_half_way = [&still_open](int fd, std::uint64_t bytes) {
    still_open = FileDescriptor(dup(fd));
    EXPECT_EQ(fallocate(fd, 0, 0, static_cast<off_t>(bytes / 2)), 0);
    return ENOSPC;
  };
  EXPECT_THAT(SpillFile::Create(Open(temp.path()), {.bytes = kBytes, .allocate = fail_half_way}),
              IsStatus(Code::kResourceExhausted, "cannot reserve 1 MiB"));
  struct stat info {};
  ASSERT_EQ(fstat(still_open.get(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_EQ(info.st_blocks, 0);
}

std::string FillSmallFileSystem(const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0) return "skip: unshare";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "skip: private";
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) return "skip: mount";
  const SpillDirectory directory = Open(path);
  struct statvfs before {};
  struct statvfs after {};
  fstatvfs(directory.fd.get(), &before);
  const absl::Status status = SpillFile::Create(directory, {.bytes = 4 * kBytes}).status();
  fstatvfs(directory.fd.get(), &after);
  if (before.f_bavail != after.f_bavail) return "space was kept";
  if (!SpillFile::Create(directory, {.bytes = kBytes / 2}).ok()) return "half does not fit";
  return status.ToString();
}

TEST(SpillFileTest, FullFileSystemIsExhaustedAndKeepsNothing) {
  const testing::TempDirectory temp;
  const std::string text = testing::RunInChild([&] { return FillSmallFileSystem(temp.path()); });
  if (text.starts_with("skip")) GTEST_SKIP() << "needs the right to mount: " << text;
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: spill directory " + temp.path() +
                ": cannot reserve 4 MiB (1 MiB free); make room there or use a directory "
                "elsewhere: ENOSPC (No space left on device)");
}

}  // namespace
}  // namespace sluice::io
