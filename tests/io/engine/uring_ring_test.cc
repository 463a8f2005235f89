#include "io/engine/uring_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "gtest/gtest.h"
#include "io/file/file_descriptor.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

class UringRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto info = CreateRing({.entries = 4, .files = {STDIN_FILENO}}, &ring_);
    if (!info.ok()) GTEST_SKIP() << "io_uring is refused here: " << info.status();
    info_ = *info;
    created_ = true;
  }
  void TearDown() override {
    if (created_) CloseRing(&ring_);
  }

  int Run() {
    EXPECT_EQ(io_uring_submit_and_wait(&ring_, 1), 1);
    io_uring_cqe* cqe = nullptr;
    EXPECT_EQ(io_uring_peek_cqe(&ring_, &cqe), 0);
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    return result;
  }

  io_uring ring_{};
  RingInfo info_;
  bool created_ = false;
};

TEST_F(UringRingTest, DoesNothingButMoveBytes) {
  if (info_.features.find("restricted") == std::string::npos) {
    GTEST_SKIP() << "this kernel grants only: " << info_.features;
  }
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  EXPECT_EQ(Run(), -EACCES);
  io_uring_prep_openat(io_uring_get_sqe(&ring_), AT_FDCWD, "/", O_RDONLY, 0);
  EXPECT_EQ(Run(), -EACCES);
  char byte = 0;
  io_uring_prep_read(io_uring_get_sqe(&ring_), -1, &byte, 1, 0);
  EXPECT_EQ(Run(), -EBADF) << "reading is allowed";
}

/// A pipe's reader sees at once that no writer is left.
TEST(CloseRingTest, LetsFilesGoAtOnce) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  io_uring ring{};
  const auto info = CreateRing({.entries = 4, .files = {writer.get()}}, &ring);
  if (!info.ok()) GTEST_SKIP() << "io_uring is refused here: " << info.status();
  if (!info->files_registered) GTEST_SKIP() << "this kernel grants only: " << info->features;
  writer = FileDescriptor();
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), -1) << "the ring has it";
  CloseRing(&ring);
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);
}

TEST_F(UringRingTest, TellsWhatItGot) {
  EXPECT_TRUE(info_.features.starts_with("single issuer") ||
              info_.features.starts_with("shared issuer"))
      << info_.features;
  EXPECT_EQ(info_.features.find("registered files") != std::string::npos, info_.files_registered);
}

}  // namespace
}  // namespace sluice::io
