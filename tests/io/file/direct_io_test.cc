// Decision on O_DIRECT, by the file system's alignments and a read that proves them.
#include "io/file/direct_io.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "io/file/spill_file.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

constexpr std::uint64_t kDirectBytes = std::uint64_t{1} << 16;

/// A kernel that tells these alignments.
AskAlignment Alignments(std::uint32_t memory, std::uint32_t offset) {
  return [=](int, struct statx* info) {
    info->stx_mask = STATX_BASIC_STATS | STATX_DIOALIGN;
    info->stx_dio_mem_align = memory;
    info->stx_dio_offset_align = offset;
    return 0;
  };
}

/// A page cache that holds the block from the `first`-th question on, counted from 1, until the
/// `last`-th.
AskCache HeldFromTo(int first, int last) {
  return [first, last, asked = 0](void*, unsigned char* resident) mutable {
    ++asked;
    *resident = first <= asked && asked <= last ? 1 : 0;
    return 0;
  };
}

/// A kernel that tells no alignment, as before Linux 6.1.
int TellNoAlignment(int /*fd*/, struct statx* info) {
  info->stx_mask = STATX_BASIC_STATS;
  return 0;
}

int RefuseStatx(int /*fd*/, struct statx* /*info*/) { return EACCES; }

bool FlagOf(int fd) { return (fcntl(fd, F_GETFL) & O_DIRECT) != 0; }

class DirectIoTest : public ::testing::Test {
 protected:
  /// Tests replace the kernel's answers. The reads are those of a real file.
  void SetUp() override {
    const auto file = Create({});
    ASSERT_THAT(file, IsOk());
    if (!(*file)->direct()) GTEST_SKIP() << temp_.path() << ": " << (*file)->direct_reason();
  }

  absl::StatusOr<std::unique_ptr<SpillFile>> Create(SpillFileOptions options) const {
    options.bytes = kDirectBytes;
    const auto directory = OpenSpillDirectory(temp_.path());
    if (!directory.ok()) return directory.status();
    return SpillFile::Create(*directory, options);
  }

  void ExpectDirect(const AskAlignment& ask, const AskCache& cache = {}) const {
    const auto file = Create({.direct = Use::kRequire, .ask_alignment = ask, .ask_cache = cache});
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ((*file)->direct_reason(), "");
    EXPECT_FALSE((*file)->file().buffered);
    EXPECT_TRUE(FlagOf((*file)->file().fd));
  }

  void ExpectBuffered(const AskAlignment& ask,
                      const std::string& reason,
                      const AskCache& cache = {}) const {
    const auto file = Create({.ask_alignment = ask, .ask_cache = cache});
    ASSERT_THAT(file, IsOk());
    EXPECT_FALSE((*file)->direct());
    EXPECT_EQ((*file)->direct_reason(), reason);
    EXPECT_TRUE((*file)->file().buffered);
    EXPECT_FALSE(FlagOf((*file)->file().fd));
    EXPECT_THAT(Create({.direct = Use::kRequire, .ask_alignment = ask, .ask_cache = cache}),
                IsStatus(Code::kFailedPrecondition,
                         "O_DIRECT is required but refused: " + reason +
                             "; io.direct = \"auto\" allows buffered I/O"));
  }

  testing::TempDirectory temp_;
};

TEST_F(DirectIoTest, AlignmentsUpToThatOfPagesAreDirect) {
  for (const auto& [memory, offset] : {std::pair{4U, 512U}, {512U, 512U}, {4096U, 4096U}}) {
    SCOPED_TRACE(offset);
    ExpectDirect(Alignments(memory, offset));
  }
}

TEST_F(DirectIoTest, AnAlignmentAboveThatOfPagesIsBufferedAndNamed) {
  ExpectBuffered(Alignments(4096, 65536),
                 "the file system wants alignment 4096 of memory and 65536 of offsets, at most "
                 "4096 is supported");
  ExpectBuffered(Alignments(65536, 512),
                 "the file system wants alignment 65536 of memory and 512 of offsets, at most "
                 "4096 is supported");
  ExpectBuffered(Alignments(512, 8192),
                 "the file system wants alignment 512 of memory and 8192 of offsets, at most "
                 "4096 is supported");
}

TEST_F(DirectIoTest, AnAlignmentOfZeroIsBuffered) {
  for (const auto& [memory, offset] : {std::pair{0U, 0U}, {512U, 0U}, {0U, 512U}}) {
    SCOPED_TRACE(memory);
    ExpectBuffered(Alignments(memory, offset), "the file system has none for this file");
  }
}

TEST_F(DirectIoTest, AReadDecidesIfNoAlignmentIsTold) {
  ExpectDirect(TellNoAlignment);
  const std::string wrong = testing::RunInChild([this]() -> std::string {
    std::string refused =
        testing::RefuseSystemCall(SYS_pread64, EINVAL, testing::Refuse::kEveryCall);
    if (!refused.empty()) return refused;
    ExpectBuffered(TellNoAlignment, "probe read: EINVAL");
    return HasFailure() ? "not buffered" : "";
  });
  EXPECT_EQ(wrong, "");
}

TEST_F(DirectIoTest, AReadThatIsRefusedCountsMoreThanWhatIsTold) {
  const std::string wrong = testing::RunInChild([this]() -> std::string {
    std::string refused = testing::RefuseSystemCall(SYS_pread64, EIO, testing::Refuse::kEveryCall);
    if (!refused.empty()) return refused;
    ExpectBuffered(Alignments(512, 512), "probe read: EIO");
    return HasFailure() ? "not buffered" : "";
  });
  EXPECT_EQ(wrong, "");
}

TEST_F(DirectIoTest, AFileThatIsTooShortForTheReadIsBuffered) {
  const FileDescriptor empty(open(temp_.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!empty.valid()) GTEST_SKIP() << temp_.path() << ": its file system has no O_TMPFILE";
  EXPECT_EQ(TurnOnDirect(empty.get(), TellNoAlignment), "the probe read came back short");
  EXPECT_FALSE(FlagOf(empty.get()));
}

/// The questions: before the read, after it where it was not held before, after each of three
/// writes.
TEST_F(DirectIoTest, AWriteThatLeavesItsBlockInThePageCacheIsBuffered) {
  const std::string reason = "the file system accepts O_DIRECT, but writes through the page cache";
  for (const AskAlignment& ask : {Alignments(512, 512), AskAlignment(TellNoAlignment)}) {
    ExpectBuffered(ask, reason, HeldFromTo(3, 5));
    ExpectBuffered(ask, reason, HeldFromTo(1, 5));
  }
}

TEST_F(DirectIoTest, AReadThatBringsItsBlockIntoThePageCacheIsBuffered) {
  ExpectBuffered(Alignments(512, 512),
                 "the file system accepts O_DIRECT, but reads through the page cache",
                 HeldFromTo(2, 5));
}

TEST_F(DirectIoTest, ABlockThatAWriteTakesOutOfThePageCacheIsDirect) {
  ExpectDirect(Alignments(512, 512), HeldFromTo(1, 1));
  ExpectDirect(Alignments(512, 512), HeldFromTo(1, 3));  // busy at first
}

TEST_F(DirectIoTest, AReadDecidesIfThePageCacheCannotBeAsked) {
  ExpectDirect(Alignments(512, 512), [](void*, unsigned char* resident) {
    *resident = 1;
    return EPERM;
  });
}

/// A mapped block of a DAX file is the medium itself, and always resident.
TEST_F(DirectIoTest, MappedMemoryOfTheMediumIsNoPageCache) {
  const AskAlignment dax = [](int fd, struct statx* info) {
    info->stx_attributes = STATX_ATTR_DAX;
    return TellNoAlignment(fd, info);
  };
  ExpectDirect(dax, HeldFromTo(3, 5));
}

TEST_F(DirectIoTest, AWriteThatIsRefusedIsBuffered) {
  const std::string wrong = testing::RunInChild([this]() -> std::string {
    std::string refused = testing::RefuseSystemCall(SYS_pwrite64, EIO, testing::Refuse::kEveryCall);
    if (!refused.empty()) return refused;
    ExpectBuffered(Alignments(512, 512), "probe write: EIO");
    return HasFailure() ? "not buffered" : "";
  });
  EXPECT_EQ(wrong, "");
}

TEST_F(DirectIoTest, AnAlignmentThatCannotBeAskedForIsBuffered) {
  ExpectBuffered(RefuseStatx, "statx: EACCES");
}

}  // namespace
}  // namespace sluice::io
