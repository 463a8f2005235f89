#include "io/file/spill_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

constexpr std::uint64_t kUnit = 8192;

class SpillFilesTest : public ::testing::Test {
 protected:
  absl::StatusOr<SpillFiles> Create(const SpillFilesOptions& options) {
    const auto directory = OpenSpillDirectory(temp_.path());
    if (!directory.ok()) return directory.status();
    return SpillFiles::Create(*directory, options);
  }

  testing::TempDirectory temp_;
};

TEST_F(SpillFilesTest, ShareTheRangeInOrder) {
  const auto files = Create({.bytes = 8 * kUnit, .unit_bytes = kUnit, .files = 3});
  ASSERT_THAT(files, IsOk());
  ASSERT_EQ(files->files().size(), 3U);
  const std::vector<std::uint64_t> sizes = {3 * kUnit, 3 * kUnit, 2 * kUnit};
  for (std::size_t i = 0; i < 3; ++i) {
    struct stat info {};
    ASSERT_EQ(fstat(files->files()[i].fd, &info), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), sizes[i]);
    EXPECT_EQ(files->files()[i].bytes, sizes[i]);
    EXPECT_EQ(info.st_nlink, 0U);
  }
  for (std::uint64_t unit = 0; unit < 8; ++unit) {
    const SpillFiles::FileOffset place = files->At(unit * kUnit);
    EXPECT_EQ(place.file, &files->files()[unit / 3]);
    EXPECT_EQ(place.offset, unit % 3 * kUnit);
  }
}

/// The space of a killed process, for example, comes back a little later.
TEST_F(SpillFilesTest, SpaceThatComesBackIsWaitedFor) {
  int calls = 0;
  SpillFilesOptions options{.bytes = 4 * kUnit, .unit_bytes = kUnit, .files = 2};
  options.each.allocate = [&](int fd, std::uint64_t bytes) {
    if (++calls < 4) return ENOSPC;
    return fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  };
  const auto files = Create(options);
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->files().size(), 2U);
  options.each.allocate = [](int, std::uint64_t) { return ENOSPC; };
  EXPECT_THAT(Create(options), IsStatus(Code::kResourceExhausted, "ENOSPC"));
  calls = 0;
  options.each.allocate = [&](int, std::uint64_t) {
    ++calls;
    return EIO;
  };
  EXPECT_FALSE(Create(options).ok());
  EXPECT_EQ(calls, 1) << "other errors do not pass";
}

TEST_F(SpillFilesTest, PlacesStayWhereTheyAreWhenTheFilesAreMoved) {
  auto files = Create({.bytes = 4 * kUnit, .unit_bytes = kUnit, .files = 2});
  ASSERT_THAT(files, IsOk());
  const IoFile* const second = files->At(2 * kUnit).file;
  const SpillFiles moved = *std::move(files);
  EXPECT_EQ(moved.At(2 * kUnit).file, second);
}

TEST_F(SpillFilesTest, SmallRangesAreOneFileAndLargeOnesAFew) {
  const auto small = Create({.bytes = 64 * kUnit, .unit_bytes = kUnit});
  ASSERT_THAT(small, IsOk());
  EXPECT_EQ(small->files().size(), 1U);
  const std::uint64_t large = std::uint64_t{3} << 30;
  const auto several = Create({.bytes = large, .unit_bytes = kUnit});
  if (absl::IsResourceExhausted(several.status())) GTEST_SKIP() << several.status();
  ASSERT_THAT(several, IsOk());
  EXPECT_EQ(several->files().size(), 3U);
}

TEST_F(SpillFilesTest, NeverMoreFilesThanUnits) {
  const auto files = Create({.bytes = 2 * kUnit, .unit_bytes = kUnit, .files = 5});
  ASSERT_THAT(files, IsOk());
  EXPECT_EQ(files->files().size(), 2U);
}

TEST_F(SpillFilesTest, SpaceToKeepFreeIsAskedForAllFilesTogether) {
  const auto refused = Create({.bytes = 8 * kUnit,
                               .unit_bytes = kUnit,
                               .files = 4,
                               .keep_free_bytes = UINT64_MAX - 8 * kUnit});
  EXPECT_THAT(refused, IsStatus(Code::kResourceExhausted, "cannot reserve 64 KiB"));
}

TEST_F(SpillFilesTest, AFileThatCannotBeMadeIsNamedByItsNumber) {
  // The size is beyond that of any file system.
  const auto refused = Create({.bytes = std::uint64_t{1} << 56, .unit_bytes = kUnit, .files = 2});
  EXPECT_THAT(refused, IsStatus(Code::kResourceExhausted, "file 1"));
}

TEST(SpillFilesWithoutFileTest, IsOneRange) {
  const SpillFiles files = SpillFiles::WithoutFile(4 * kUnit);
  ASSERT_EQ(files.files().size(), 1U);
  EXPECT_EQ(files.At(3 * kUnit).offset, 3 * kUnit);
  EXPECT_EQ(files.direct_reason(), "no file");
}

}  // namespace
}  // namespace sluice::io
