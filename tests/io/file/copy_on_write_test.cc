// Detection of copying on write, by the file system and its answer to FS_NOCOW_FL.
#include "io/file/copy_on_write.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "io/drives/drive_set.h"
#include "io/file/file_descriptor.h"
#include "io/file/spill_file.h"
#include "io/file/spill_files.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

constexpr std::uint64_t kCopyBytes = std::uint64_t{1} << 16;
constexpr std::uint64_t kXfs = 0x58465342;
constexpr std::uint64_t kZfs = 0x2fc12fc1;
constexpr std::uint64_t kBcachefs = 0xca451a4e;

TEST(CopyOnWriteTest, AFileThatKeepsTheFlagIsNotCopied) {
  for (const std::uint64_t magic : {std::uint64_t{BTRFS_SUPER_MAGIC}, kBcachefs, kZfs, kXfs}) {
    EXPECT_EQ(WhyCopied({.file_system = magic, .nocow = true}), "");
  }
}

TEST(CopyOnWriteTest, AFileSystemThatOverwritesNeedsNoFlag) {
  for (const std::uint64_t magic : {std::uint64_t{EXT4_SUPER_MAGIC},
                                    std::uint64_t{TMPFS_MAGIC},
                                    std::uint64_t{F2FS_SUPER_MAGIC},
                                    std::uint64_t{OVERLAYFS_SUPER_MAGIC},
                                    kXfs,
                                    std::uint64_t{0}}) {
    EXPECT_EQ(WhyCopied({.file_system = magic, .get_error = ENOTTY}), "");
    EXPECT_EQ(WhyCopied({.file_system = magic, .set_error = EOPNOTSUPP}), "");
    EXPECT_EQ(WhyCopied({.file_system = magic}), "");
  }
}

TEST(CopyOnWriteTest, ACopyingFileSystemWithoutTheFlagSaysWhy) {
  EXPECT_EQ(WhyCopied({.file_system = kZfs, .get_error = ENOTTY}),
            "zfs copies pages on write, FS_IOC_GETFLAGS: ENOTTY");
  EXPECT_EQ(WhyCopied({.file_system = BTRFS_SUPER_MAGIC, .get_error = EPERM}),
            "btrfs copies pages on write, FS_IOC_GETFLAGS: EPERM");
  EXPECT_EQ(WhyCopied({.file_system = kBcachefs, .set_error = EOPNOTSUPP}),
            "bcachefs copies pages on write, FS_NOCOW_FL is refused: EOPNOTSUPP");
  EXPECT_EQ(WhyCopied({.file_system = BTRFS_SUPER_MAGIC}),
            "btrfs copies pages on write, FS_NOCOW_FL is accepted and not kept");
  EXPECT_EQ(WhyCopied({.file_system = BTRFS_SUPER_MAGIC}, "off by option"),
            "btrfs copies pages on write, off by option");
  EXPECT_EQ(WhyCopied({.file_system = BTRFS_SUPER_MAGIC, .nocow = true}, "off by option"), "");
}

TEST(CopyOnWriteTest, TheAnswersAreThoseOfTheFile) {
  const testing::TempDirectory temp;
  const FileDescriptor file(open(temp.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.valid()) GTEST_SKIP() << temp.path() << ": its file system has no O_TMPFILE";
  EXPECT_NE(AskForNocow(file.get()).file_system, 0U);
  const std::string text = testing::RunInChild([&]() -> std::string {
    std::string failed = testing::RefuseSystemCall(SYS_ioctl, EPERM, testing::Refuse::kEveryCall);
    if (!failed.empty()) return failed;
    const NocowAnswers refused = AskForNocow(file.get());
    return refused.get_error == EPERM && !refused.nocow ? "" : "not what the kernel said";
  });
  EXPECT_EQ(text, "");
}

/// A btrfs that refuses the flag.
NocowAnswers RefuseFlag(int /*fd*/) {
  return {.file_system = BTRFS_SUPER_MAGIC, .set_error = EPERM};
}

NocowAnswers KeepFlag(int /*fd*/) { return {.file_system = BTRFS_SUPER_MAGIC, .nocow = true}; }

constexpr const char* kRefused = "btrfs copies pages on write, FS_NOCOW_FL is refused: EPERM";

class CopiedFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<SpillFiles> Create(const SpillFileOptions& each) const {
    const auto directory = OpenSpillDirectory(temp_.path());
    if (!directory.ok()) return directory.status();
    return SpillFiles::Create(*directory,
                              {.bytes = kCopyBytes, .unit_bytes = 4096, .files = 2, .each = each});
  }

  testing::TempDirectory temp_;
};

TEST_F(CopiedFileTest, IsAllowedAndSaysSo) {
  const auto files = Create({.ask_nocow = RefuseFlag});
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->nocow_reason(), kRefused);
}

TEST_F(CopiedFileTest, IsRefusedWhereItIsForbidden) {
  EXPECT_THAT(Create({.nocow = Use::kRequire, .ask_nocow = RefuseFlag}),
              IsStatus(Code::kFailedPrecondition,
                       std::string("writing in place is required but refused: ") + kRefused +
                           "; io.nocow = \"auto\" allows copies"));
  EXPECT_EQ(temp_.entries(), 0);
}

TEST_F(CopiedFileTest, AFileThatKeepsTheFlagIsNotCopied) {
  const auto files = Create({.nocow = Use::kRequire, .ask_nocow = KeepFlag});
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->nocow_reason(), "");
}

/// The flag comes before the bytes: btrfs takes it from a file that has some, and does not keep it.
TEST_F(CopiedFileTest, IsAskedWhileItHasNoBytes) {
  std::string order;
  const auto files = Create({.allocate =
                                 [&](int, std::uint64_t) {
                                   order += "reserve ";
                                   return EIO;
                                 },
                             .ask_nocow =
                                 [&](int fd) {
                                   struct stat info {};
                                   fstat(fd, &info);
                                   order += info.st_size == 0 ? "ask " : "late ";
                                   return KeepFlag(fd);
                                 }});
  EXPECT_FALSE(files.ok());
  EXPECT_TRUE(order.starts_with("ask reserve")) << order;
}

TEST(CopiedStatsTest, ADriveThatCopiesMakesTheSetCopy) {
  PageStoreStats stats{.nocow = true};
  stats.Add({.nocow = false, .nocow_reason = "drive b: zfs copies"});
  EXPECT_FALSE(stats.nocow);
  EXPECT_EQ(stats.nocow_reason, "drive b: zfs copies");
  stats.Add({.nocow = true});
  EXPECT_FALSE(stats.nocow);
  stats.Add({.nocow = false, .nocow_reason = "drive d: btrfs copies"});
  EXPECT_EQ(stats.nocow_reason, "drive b: zfs copies; drive d: btrfs copies");
}

}  // namespace
}  // namespace sluice::io
