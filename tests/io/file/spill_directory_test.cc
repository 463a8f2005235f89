#include "io/file/spill_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "io/drives/disk_rates.h"
#include "io/store/page_store.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

class SpillDirectoryTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& name, mode_t mode) {
    std::string path = temp_.path() + "/" + name;
    EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);  // the umask does not restrict chmod
    return path;
  }
  testing::TempDirectory temp_;
};

TEST_F(SpillDirectoryTest, OwnDirectoryIsOpened) {
  for (const mode_t mode : {0700U, 0750U, 0755U}) {
    const std::string path = Make("mode" + std::to_string(mode), mode);
    const auto directory = OpenSpillDirectory(path);
    ASSERT_THAT(directory, IsOk());
    EXPECT_TRUE(directory->fd.valid());
    EXPECT_EQ(directory->path, path);
  }
}

TEST_F(SpillDirectoryTest, MissingDirectoryNamesTheCommandThatMakesIt) {
  const std::string path = temp_.path() + "/nowhere";
  EXPECT_THAT(
      OpenSpillDirectory(path),
      IsStatus(
          Code::kNotFound,
          fmt::format("spill directory {0} does not exist; make it: mkdir -p -m 700 {0}", path)));
}

TEST_F(SpillDirectoryTest, TheCommandCanBePastedWhateverTheName) {
  EXPECT_THAT(OpenSpillDirectory(temp_.path() + "/no where"),
              IsStatus(Code::kNotFound,
                       fmt::format("make it: mkdir -p -m 700 '{}/no where'", temp_.path())));
  const std::string path = Make("every body", 0777);
  EXPECT_THAT(OpenSpillDirectory(path),
              IsStatus(Code::kPermissionDenied, fmt::format("run: chmod go-w '{}'", path)));
}

TEST_F(SpillDirectoryTest, DirectoryThatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0777U, 0770U, 0702U}) {
    const std::string path = Make("mode" + std::to_string(mode), mode);
    EXPECT_THAT(
        OpenSpillDirectory(path),
        IsStatus(Code::kPermissionDenied,
                 fmt::format(
                     "spill directory {0} is writable by {2} (mode {1:04o}); run: chmod go-w {0}",
                     path,
                     mode,
                     mode == 0770U ? "its group" : "others")));
  }
}

TEST_F(SpillDirectoryTest, DirectoryThatIsSharedOnPurposeStaysSo) {
  const std::string path = Make("shared", 01777);
  EXPECT_THAT(OpenSpillDirectory(path),
              IsStatus(Code::kPermissionDenied,
                       fmt::format("spill directory {0} is writable by others (mode 1777); use one "
                                   "of your own in it: mkdir -m 700 {0}/sluice",
                                   path)));
}

TEST_F(SpillDirectoryTest, TildeIsNotExpanded) {
  EXPECT_THAT(OpenSpillDirectory("~/spill"),
              IsStatus(Code::kNotFound,
                       "spill directory ~/spill does not exist: only a shell expands '~'; write "
                       "the whole path"));
}

TEST_F(SpillDirectoryTest, SymbolicLinkIsRefusedHoweverItIsWritten) {
  const std::string target = Make("target", 0700);
  const std::string link = temp_.path() + "/link";
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  for (const std::string& path : {link, link + "/", link + "///"}) {
    EXPECT_THAT(OpenSpillDirectory(path),
                IsStatus(Code::kPermissionDenied,
                         fmt::format("spill directory {} is a symbolic link; name the directory "
                                     "that it points to",
                                     link)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(target));
}

TEST_F(SpillDirectoryTest, AnOpenedDirectoryIsUsedWhateverHasItsNameLater) {
  const std::string path = Make("opened", 0700);
  const auto opened = OpenUnlessOpened(nullptr, path);
  ASSERT_THAT(opened, IsOk());
  std::filesystem::rename(path, path + "-moved");
  std::filesystem::create_directory_symlink(Make("elsewhere", 0777), path);
  EXPECT_THAT(OpenUnlessOpened(nullptr, path), HasCode(Code::kPermissionDenied));
  base::WorkerPool workers({.threads = 1, .name = "test-worker", .cpus = {}});
  EXPECT_THAT(PageStore::Create(
                  {.directory = path, .opened = *opened, .page_bytes = 4096, .slots = 4}, workers),
              IsOk());
  EXPECT_THAT(MeasureDiskRates({.directory = path,
                                .opened = *opened,
                                .file_bytes = 1 << 20,
                                .block_bytes = 1 << 18,
                                .milliseconds = 1}),
              IsOk());
}

TEST_F(SpillDirectoryTest, OneDirectoryIsNotTwoDrives) {
  const std::string path = Make("drive", 0700);
  const auto opened = OpenSpillDirectories({path, Make("other", 0700)});
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ(opened->front()->path, path);
  EXPECT_THAT(OpenSpillDirectories({path, path + "/"}),
              IsStatus(Code::kInvalidArgument, "is named twice, the first time as " + path));
}

TEST_F(SpillDirectoryTest, DanglingSymbolicLinkIsRefused) {
  const std::string link = temp_.path() + "/link";
  ASSERT_EQ(symlink("/nonexistent", link.c_str()), 0);
  EXPECT_THAT(OpenSpillDirectory(link), IsStatus(Code::kPermissionDenied, "is a symbolic link"));
}

TEST_F(SpillDirectoryTest, FileIsRefused) {
  const std::string path = temp_.path() + "/file";
  std::ofstream(path) << "x";
  EXPECT_THAT(OpenSpillDirectory(path),
              IsStatus(Code::kInvalidArgument, path + " is not a directory; name one"));
}

TEST_F(SpillDirectoryTest, ForeignDirectoryIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const std::string path = Make("foreign", 0700);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(OpenSpillDirectory(path),
              IsStatus(Code::kPermissionDenied,
                       fmt::format("spill directory {} belongs to uid 65534, not to you (uid 0); "
                                   "name one of your own",
                                   path)));
}

TEST_F(SpillDirectoryTest, DirectoryThatMayNotBeReadIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can take on another uid";
  const std::string text = testing::RunInChild([&]() -> std::string {
    if (setresuid(65534, 65534, 65534) != 0) return "setresuid";
    return OpenSpillDirectory(temp_.path()).status().ToString();
  });
  EXPECT_EQ(
      text,
      fmt::format("PERMISSION_DENIED: spill directory {} may not be opened (EACCES); name one "
                  "of your own that you may read and write",
                  temp_.path()));
}

TEST_F(SpillDirectoryTest, DefaultIsMadeForItsOwnerAloneAndFoundAgain) {
  const absl::StatusOr<std::string> path = MakeDefaultSpillDirectory(temp_.path());
  ASSERT_THAT(path, IsOk());
  EXPECT_EQ(*path, fmt::format("{}/sluice-{}", temp_.path(), geteuid()));
  struct stat info {};
  ASSERT_EQ(stat(path->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0700U);
  EXPECT_THAT(MakeDefaultSpillDirectory(temp_.path()), IsOk());
  EXPECT_THAT(OpenSpillDirectory(*path), IsOk());
}

TEST_F(SpillDirectoryTest, PlantedLinkInPlaceOfTheDefaultIsNotFollowed) {
  const std::string target = Make("target", 0700);
  const std::string planted = fmt::format("{}/sluice-{}", temp_.path(), geteuid());
  ASSERT_EQ(symlink(target.c_str(), planted.c_str()), 0);
  const absl::StatusOr<std::string> path = MakeDefaultSpillDirectory(temp_.path());
  ASSERT_THAT(path, IsOk());
  EXPECT_THAT(OpenSpillDirectory(*path), IsStatus(Code::kPermissionDenied, "symbolic link"));
}

}  // namespace
}  // namespace sluice::io
