#include "tools/support/output/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/temporary_directory.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Status WriteTo(const std::string& path, const std::string& content) {
  auto file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(content);
  return status.ok() ? (*file)->Commit() : status;
}

TEST(AtomicFileTest, AppearsOnlyOnCommit) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("file", "old");
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string expected;
  for (int i = 0; i < 5; ++i) {
    const std::string part(700'000, static_cast<char>('a' + i));
    ASSERT_TRUE((*file)->Append(part).ok());
    expected += part;
  }
  EXPECT_EQ(ReadWhole(path), "old");
  ASSERT_TRUE((*file)->Commit().ok());
  file->reset();
  EXPECT_EQ(ReadWhole(path), expected);
  EXPECT_THAT(directory.Names(), ElementsAre("file"));
}

TEST(AtomicFileTest, BeforeCommitNothingIsThere) {
  const TemporaryDirectory directory;
  auto file = AtomicFile::Create(directory / "file");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("content").ok());
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(AtomicFileTest, ANameOfAnyLengthWillDo) {
  const TemporaryDirectory directory;
  const std::string longest = directory / std::string(255, 'x');
  EXPECT_TRUE(WriteTo(longest, "content").ok());
  EXPECT_FALSE(AtomicFile::Create(longest + "x").ok()) << "found before the work";
}

TEST(AtomicFileTest, ErrorsAreTyped) {
  const TemporaryDirectory directory;
  EXPECT_EQ(AtomicFile::Create(directory / "no/file").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AtomicFile::Create(directory.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AtomicFile::Create("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AtomicFileTest, SymbolicLinksStayAndLeadToTheFile) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "sub");
  directory.Write("sub/old", "old");
  std::filesystem::create_symlink("sub/old", directory / "link");
  std::filesystem::create_symlink("link", directory / "link to link");
  std::filesystem::create_symlink("sub/new", directory / "dangling");
  EXPECT_TRUE(WriteTo(directory / "link to link", "first").ok());
  EXPECT_TRUE(WriteTo(directory / "dangling", "second").ok());
  EXPECT_EQ(ReadWhole(directory / "sub/old"), "first");
  EXPECT_EQ(ReadWhole(directory / "sub/new"), "second");
  for (const char* name : {"link", "link to link", "dangling"}) {
    EXPECT_TRUE(std::filesystem::is_symlink(directory / name)) << name;
  }
}

TEST(AtomicFileTest, AFifoIsWrittenToNotReplaced) {
  const TemporaryDirectory directory;
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // Open at both ends, so that nobody waits for the other.
  const int reader = open(fifo.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(WriteTo(fifo, "content").ok());
  std::array<char, 16> received{};
  EXPECT_EQ(read(reader, received.data(), received.size()), 7);
  close(reader);
  EXPECT_STREQ(received.data(), "content");
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_THAT(directory.Names(), ElementsAre("fifo"));
}

/// The device is a new node: a mistake would replace /dev/null itself for everybody.
TEST(AtomicFileTest, ADeviceIsWrittenToNotReplaced) {
  const TemporaryDirectory directory;
  const std::string null = directory / "null", full = directory / "full";
  if (mknod(null.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
      mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0) {
    GTEST_SKIP() << "a device node needs root to be made";
  }
  if (access(null.c_str(), W_OK) != 0 || !std::ofstream(null).is_open()) {
    GTEST_SKIP() << "devices do not work in " << directory.path();
  }
  EXPECT_TRUE(WriteTo(null, "content").ok());
  EXPECT_FALSE(WriteTo(full, "content").ok());
  EXPECT_TRUE(std::filesystem::is_character_file(null));
  EXPECT_TRUE(std::filesystem::is_character_file(full));
}

TEST(AtomicFileTest, PathsThatAreNeitherFileNorStreamAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "socket";
  ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  const absl::Status status = WriteTo(path, "content");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_TRUE(std::filesystem::is_socket(path));
}

TEST(AtomicFileTest, AFailedWriteStaysFailed) {
  const TemporaryDirectory directory;
  const std::string path = directory / "file";
  auto file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append("content").ok());
  std::filesystem::remove_all(directory.path());
  EXPECT_FALSE((*file)->Commit().ok());
  EXPECT_FALSE((*file)->Append("more").ok());
}

}  // namespace
}  // namespace sluice::tools
