// Spill files on file systems without fallocate(2): written in full once.
#include "io/file/file_fill.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/drives/drive_set.h"
#include "io/file/spill_file.h"
#include "io/file/spill_files.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/every_slot.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

constexpr std::uint64_t kFillMiB = std::uint64_t{1} << 20;
constexpr const char* kNoFallocate = "fallocate is not supported: EOPNOTSUPP";

class FileFillTest : public ::testing::Test {
 protected:
  absl::StatusOr<SpillFiles> Create(std::uint64_t bytes, SpillFileOptions each = {}) const {
    const auto directory = OpenSpillDirectory(temp_.path());
    if (!directory.ok()) return directory.status();
    if (!each.allocate) each.allocate = [](int, std::uint64_t) { return EOPNOTSUPP; };
    return SpillFiles::Create(*directory,
                              {.bytes = bytes, .unit_bytes = 4096, .files = 2, .each = each});
  }

  testing::TempDirectory temp_;
};

TEST_F(FileFillTest, EachFileHasAllItsBlocksAndSaysWhy) {
  const auto files = Create(3 * kFillMiB + 8192);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->reserved_space_reason(), kNoFallocate);
  ASSERT_EQ(files->files().size(), 2U);
  for (const IoFile& file : files->files()) {
    struct stat info {};
    ASSERT_EQ(fstat(file.fd, &info), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), file.bytes);
    EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, file.bytes);
  }
  EXPECT_EQ(temp_.entries(), 0);
}

TEST_F(FileFillTest, AReservedFileIsNotWritten) {
  const auto directory = OpenSpillDirectory(temp_.path());
  int calls = 0;
  const auto file = SpillFile::Create(
      *directory, {.bytes = kFillMiB, .on_fill = [&](const FillProgress&) { ++calls; }});
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ((*file)->reserved_space_reason(), "");
  EXPECT_EQ(calls, 0);
}

TEST_F(FileFillTest, AKernelWithoutTheCallIsOne) {
  const auto files = Create(kFillMiB, {.allocate = [](int, std::uint64_t) { return ENOSYS; }});
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->reserved_space_reason(), "fallocate is not supported: ENOSYS");
}

TEST_F(FileFillTest, OtherRefusalsAreErrors) {
  for (const int error : {EIO, ENOSPC, EPERM, EINVAL}) {
    const auto files = Create(kFillMiB, {.allocate = [&](int, std::uint64_t) { return error; }});
    EXPECT_FALSE(files.ok()) << error;
  }
}

TEST_F(FileFillTest, IsRefusedWhereReservedSpaceIsRequired) {
  EXPECT_THAT(Create(kFillMiB, {.reserved_space = Use::kRequire}),
              IsStatus(Code::kFailedPrecondition,
                       "spill directory " + temp_.path() +
                           ": reserved space is required but refused: " + kNoFallocate +
                           "; io.reserved_space = \"auto\" allows to write the file in full "
                           "first"));
  EXPECT_EQ(temp_.entries(), 0);
}

TEST_F(FileFillTest, ProgressIsThatOfAllFiles) {
  std::vector<std::string> told;
  const auto tell = [&](const FillProgress& progress) {
    EXPECT_EQ(progress.directory, temp_.path());
    EXPECT_EQ(progress.reason, kNoFallocate);
    told.push_back(fmt::format("{}/{}", progress.filled / kFillMiB, progress.bytes_all / kFillMiB));
  };
  ASSERT_THAT(Create(160 * kFillMiB, {.on_fill = tell}), IsOk());
  EXPECT_EQ(told, (std::vector<std::string>{"0/160", "64/160", "80/160", "144/160", "160/160"}));
}

TEST_F(FileFillTest, IsStoppedBetweenPieces) {
  int told = 0;
  const auto tell = [&](const FillProgress&) { ++told; };
  for (const int stop_at : {1, 2}) {
    told = 0;
    EXPECT_THAT(
        Create(160 * kFillMiB, {.on_fill = tell, .stop_fill = [&] { return told == stop_at; }}),
        IsStatus(Code::kCancelled, "stopped"));
    EXPECT_EQ(told, stop_at) << "nothing was written after that";
    EXPECT_EQ(temp_.entries(), 0);
  }
}

/// Zeros and equal blocks take no space where a file system compresses or shares them.
TEST_F(FileFillTest, NoTwoBlocksAreEqualAndNoneIsZero) {
  const auto files = Create(8 * kFillMiB);
  ASSERT_THAT(files, IsOk());
  const IoFile& file = files->files()[0];
  const FileDescriptor reopened(
      open(fmt::format("/proc/self/fd/{}", file.fd).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reopened.valid());
  std::set<std::string> blocks;
  std::string block(4096, '\0');
  // The probe of O_DIRECT used the first block.
  for (std::uint64_t offset = 4096; offset < file.bytes; offset += 4096) {
    ASSERT_EQ(pread(reopened.get(), block.data(), block.size(), static_cast<off_t>(offset)), 4096);
    EXPECT_TRUE(blocks.insert(block).second) << offset;
    EXPECT_FALSE(blocks.contains(std::string(4096, '\0'))) << offset;
  }
}

/// Runs `body` in a child where fallocate(2) fails as on ext3.
std::string WithoutFallocate(const std::function<std::string()>& body) {
  return testing::RunInChild([&] {
    const std::string failed =
        testing::RefuseSystemCall(SYS_fallocate, EOPNOTSUPP, testing::Refuse::kEveryCall);
    return failed.empty() ? body() : failed;
  });
}

TEST(FilledStoreTest, KeepsEveryPageAndSaysWhyOfEachDrive) {
  const testing::TempDirectory first;
  const testing::TempDirectory second;
  const std::string text = WithoutFallocate([&]() -> std::string {
    base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
    const DriveSetOptions options{.store = {.page_bytes = 65536, .slots = 64},
                                  .directories = {first.path(), second.path()},
                                  .rates = {1, 1}};
    const auto store = CreateDriveSet(options, workers);
    if (!store.ok()) return store.status().ToString();
    const std::string wrong = testing::UseEverySlot(**store, options.store, 1);
    if (!wrong.empty()) return wrong;
    const PageStoreStats stats = (*store)->stats();
    return (stats.reserved_space ? "reserved; " : "filled; ") + stats.reserved_space_reason;
  });
  EXPECT_EQ(text,
            fmt::format("filled; drive {}: {}; drive {}: {}",
                        first.path(),
                        kNoFallocate,
                        second.path(),
                        kNoFallocate));
}

/// The errors of a delayed allocation come with the sync.
TEST(FilledStoreTest, AnErrorOfTheSyncIsOneOfTheFile) {
  const testing::TempDirectory temp;
  for (const auto& [error, code] : {std::pair(ENOSPC, "RESOURCE_EXHAUSTED"),
                                    std::pair(EDQUOT, "RESOURCE_EXHAUSTED"),
                                    std::pair(EIO, "INTERNAL")}) {
    const int refusal = error;
    const std::string text = WithoutFallocate([&]() -> std::string {
      const std::string failed =
          testing::RefuseSystemCall(SYS_fdatasync, refusal, testing::Refuse::kEveryCall);
      if (!failed.empty()) return failed;
      const auto directory = OpenSpillDirectory(temp.path());
      return SpillFile::Create(*directory, {.bytes = kFillMiB}).status().ToString();
    });
    EXPECT_TRUE(text.starts_with(code)) << text;
    EXPECT_NE(text.find("cannot reserve 1 MiB ("), std::string::npos) << text;
  }
  EXPECT_EQ(temp.entries(), 0);
}

/// A small tmpfs at `path`, in a mount namespace of this process.
std::string MountSmallTmpfs(const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0) return "skip: unshare";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "skip: private";
  const int mounted = mount("tmpfs", path.c_str(), "tmpfs", 0, "size=100m,mode=0700");
  return mounted == 0 ? "" : "skip: mount";
}

std::uint64_t FreeIn(const SpillDirectory& directory) {
  struct statvfs info {};
  fstatvfs(directory.fd.get(), &info);
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

SpillFilesOptions TooMuch(OnFill on_fill) {
  return {.bytes = 90 * kFillMiB,
          .unit_bytes = 4096,
          .files = 2,
          .each = {.on_fill = std::move(on_fill),
                   .allocate = [](int, std::uint64_t) { return EOPNOTSUPP; }}};
}

std::string Expected(const std::string& path, const char* what, const char* free) {
  return fmt::format(
      "RESOURCE_EXHAUSTED: {}spill directory {}: cannot reserve 45 MiB ({} MiB free); make room "
      "there or use a directory elsewhere: ENOSPC (No space left on device)",
      what,
      path,
      free);
}

/// Another file on the same file system.
class OtherFile {
 public:
  explicit OtherFile(const std::string& directory)
      : file_(open((directory + "/other").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  void Take(std::uint64_t bytes) const {
    if (posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes)) != 0) _exit(1);
  }

 private:
  FileDescriptor file_;
};

/// Creates two files that together need more space than there is. The error must come before a byte
/// is written.
std::string FindItBefore(const std::string& path) {
  if (std::string why = MountSmallTmpfs(path); !why.empty()) return why;
  const SpillDirectory directory = *OpenSpillDirectory(path);
  const OtherFile other(path);
  other.Take(20 * kFillMiB);
  bool began = false;
  const absl::Status status =
      SpillFiles::Create(directory, TooMuch([&](const FillProgress&) { began = true; })).status();
  return status.ToString() + (began ? " (after writing)" : "");
}

TEST(FilledStoreTest, TooLittleSpaceForAllFilesIsFoundBeforeTheFirst) {
  const testing::TempDirectory temp;
  const std::string text = testing::RunInChild([&] { return FindItBefore(temp.path()); });
  if (text.starts_with("skip")) GTEST_SKIP() << "needs the right to mount: " << text;
  EXPECT_EQ(text, Expected(temp.path(), "file 1: ", "80"));
}

/// Somebody else takes the space while a file is written.
std::string LoseItMeanwhile(const std::string& path, std::uint64_t when_filled) {
  if (std::string why = MountSmallTmpfs(path); !why.empty()) return why;
  const SpillDirectory directory = *OpenSpillDirectory(path);
  const OtherFile other(path);
  const absl::Status status =
      SpillFiles::Create(directory, TooMuch([&](const FillProgress& progress) {
                           if (progress.filled == when_filled) other.Take(40 * kFillMiB);
                         }))
          .status();
  return status.ToString() + (FreeIn(directory) == 60 * kFillMiB ? "" : " (space was kept)");
}

TEST(FilledStoreTest, SpaceThatGoesMeanwhileIsTheSameErrorAndNothingIsKept) {
  const testing::TempDirectory temp;
  for (const std::uint64_t when : {std::uint64_t{0}, 45 * kFillMiB}) {
    const std::string text =
        testing::RunInChild([&] { return LoseItMeanwhile(temp.path(), when); });
    if (text.starts_with("skip")) GTEST_SKIP() << "needs the right to mount: " << text;
    EXPECT_TRUE(text.starts_with("RESOURCE_EXHAUSTED: file ")) << text;
    EXPECT_NE(text.find("cannot reserve 45 MiB ("), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("ENOSPC (No space left on device)")) << text;
  }
}

}  // namespace
}  // namespace sluice::io
