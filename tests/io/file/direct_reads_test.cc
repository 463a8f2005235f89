// Decision on O_DIRECT for a file that is only read, by one read of its last block.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "io/file/direct_io.h"
#include "io/file/file_descriptor.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

class DirectReadsTest : public ::testing::Test {
 protected:
  /// An open file of so many bytes.
  static FileDescriptor Open(const testing::TempDirectory& directory, std::size_t bytes) {
    const std::string path = directory.path() + "/f";
    std::ofstream(path) << std::string(bytes, 'x');
    FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(fsync(file.get()), 0);
    return file;
  }
  static bool IsDirect(const FileDescriptor& file) {
    return (fcntl(file.get(), F_GETFL) & O_DIRECT) != 0;
  }

  testing::TempDirectory temp_;
};

/// A page cache that has the block only after it was read.
AskCache BroughtInByTheRead() {
  return [asked = 0](void*, unsigned char* resident) mutable {
    *resident = asked++ == 0 ? 0 : 1;
    return 0;
  };
}

TEST_F(DirectReadsTest, FilesOfAnyLengthAreReadDirectly) {
  for (const std::size_t bytes : {1U, 511U, 4096U, 4097U, 70'000U}) {
    SCOPED_TRACE(bytes);
    const FileDescriptor file = Open(temp_, bytes);
    const std::string reason = TurnOnDirectReads(file.get());
    if (reason.starts_with("the file system")) GTEST_SKIP() << temp_.path() << ": " << reason;
    EXPECT_EQ(reason, "");
    EXPECT_TRUE(IsDirect(file));
  }
}

TEST_F(DirectReadsTest, AFileThatIsReadThroughThePageCacheStaysBuffered) {
  const FileDescriptor file = Open(temp_, 9000);
  EXPECT_EQ(TurnOnDirectReads(file.get(), {}, BroughtInByTheRead()),
            "the file system accepts O_DIRECT, but reads through the page cache");
  EXPECT_FALSE(IsDirect(file));
}

TEST_F(DirectReadsTest, MemoryAndEmptyFilesStayBuffered) {
  const testing::TempDirectory memory("/dev/shm");
  const FileDescriptor in_memory = Open(memory, 9000);
  EXPECT_EQ(TurnOnDirectReads(in_memory.get()), "the file system is memory (tmpfs)");
  EXPECT_FALSE(IsDirect(in_memory));
  const FileDescriptor empty = Open(temp_, 0);
  EXPECT_EQ(TurnOnDirectReads(empty.get()), "the file is empty");
  EXPECT_FALSE(IsDirect(empty));
}

}  // namespace
}  // namespace sluice::io
