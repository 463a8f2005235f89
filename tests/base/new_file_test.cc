// A file that appears whole, where the file system has nameless files and where it has none.
#include "base/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::base {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::TempDirectory;
using Code = absl::StatusCode;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file system that answers O_TMPFILE with an errno; 0: as the kernel answers.
class NamelessRefused : public FileCalls {
 public:
  explicit NamelessRefused(int error_number) : error_number_(error_number) {}
  int Open(const std::string& path, int flags, mode_t mode) override {
    if ((flags & O_TMPFILE) != O_TMPFILE || error_number_ == 0) {
      return FileCalls::Open(path, flags, mode);
    }
    errno = error_number_;
    return -1;
  }

 private:
  const int error_number_;
};

class NewFileTest : public ::testing::TestWithParam<int> {
 protected:
  std::string path() const { return directory_.path() + "/file"; }
  absl::StatusOr<std::unique_ptr<NewFile>> Create() {
    return NewFile::Create(path(), {.mode = 0600, .calls = &calls_});
  }
  absl::Status WriteWhole(std::string_view text) {
    auto file = Create();
    if (!file.ok()) return file.status();
    const absl::Status written = (*file)->Write(BytesOf(text));
    return written.ok() ? (*file)->Commit() : written;
  }

  TempDirectory directory_;
  NamelessRefused calls_{GetParam()};
};

TEST_P(NewFileTest, AppearsWholeAndReplacesTheOldOne) {
  std::ofstream(path()) << "old";
  auto file = Create();
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->Write(BytesOf("new ")), IsOk());
  ASSERT_THAT((*file)->Write(BytesOf("file")), IsOk());
  EXPECT_EQ(Content(path()), "old");
  ASSERT_THAT((*file)->Commit(), IsOk());
  EXPECT_EQ(Content(path()), "new file");
  EXPECT_EQ(directory_.entries(), 1);
  struct stat info {};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_THAT((*file)->Write(BytesOf("more")), IsStatus(Code::kFailedPrecondition, "has been"));
}

TEST_P(NewFileTest, WithoutCommitNothingIsLeft) {
  auto file = Create();
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT((*file)->Write(BytesOf("content")), IsOk());
  EXPECT_EQ(directory_.entries(), GetParam() == 0 ? 0 : 1);
  file->reset();
  EXPECT_EQ(directory_.entries(), 0);
}

TEST_P(NewFileTest, TheLimitOfFileSizesIsAnErrorNotASignal) {
  const std::string text = testing::RunInChild([&]() -> std::string {
    const testing::FileSizeLimit limit(8);
    return WriteWhole("more than eight").ToString();
  });
  EXPECT_EQ(text,
            "RESOURCE_EXHAUSTED: write " + path() +
                ": the limit of file sizes is 8 bytes (see ulimit -f)");
  EXPECT_EQ(directory_.entries(), 0);
}

TEST_P(NewFileTest, ADirectoryInTheWayIsNamed) {
  std::filesystem::create_directory(path());
  EXPECT_THAT(WriteWhole("content"), IsStatus(Code::kInvalidArgument, "move it away"));
  EXPECT_EQ(directory_.entries(), 1);
}

TEST_P(NewFileTest, APathThatTakesNoFileIsRefusedBeforeTheWork) {
  const NewFileOptions options{.calls = &calls_};
  EXPECT_THAT(NewFile::Create(path() + "/file", options),
              IsStatus(Code::kNotFound, "directory " + path() + " does not exist"));
  EXPECT_THAT(NewFile::Create("/proc/file", options),
              IsStatus(geteuid() == 0 ? Code::kInvalidArgument : Code::kPermissionDenied, "/proc"));
}

INSTANTIATE_TEST_SUITE_P(Kernel, NewFileTest, ::testing::Values(0));
// Errors of NFS, CIFS and FUSE; of kernels before 3.11; of a file system with its own reason.
INSTANTIATE_TEST_SUITE_P(NoNamelessFiles,
                         NewFileTest,
                         ::testing::Values(EOPNOTSUPP, EISDIR, ENOENT, EINVAL));

TEST(NewFileNameTest, ARelativePathHasTheCurrentDirectory) {
  const TempDirectory directory;
  const std::string text = testing::RunInChild([&]() -> std::string {
    std::filesystem::current_path(directory.path());
    auto file = NewFile::Create("file");
    return file.ok() ? (*file)->Commit().ToString() : file.status().ToString();
  });
  EXPECT_EQ(text, "OK");
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/file"));
}

}  // namespace
}  // namespace sluice::base
