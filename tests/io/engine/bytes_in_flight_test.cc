// The limit of the bytes that the kernel holds for a ring. Reads of an empty pipe stay in the
// kernel.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "io/engine/io_engine.h"
#include "io/file/file_descriptor.h"
#include "io/store/page_store_parts.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::PageBuffer;

/// Far longer than a read takes that the kernel has.
constexpr auto kLong = std::chrono::milliseconds(30);

/// A read of one block.
class BlockRead final : public IoRequest {
 public:
  explicit BlockRead(const IoFile& file) {
    command = {.file = &file, .data = page_.span().data(), .bytes = kIoAlignment};
  }
  void Complete(std::int64_t result) override {
    bytes_ = result;
    ended_ = true;
  }
  bool ended() const { return ended_; }
  void Await() const {
    while (!ended_) std::this_thread::yield();
    EXPECT_EQ(bytes_, static_cast<std::int64_t>(kIoAlignment));
  }

 private:
  PageBuffer page_{kIoAlignment};
  std::int64_t bytes_ = 0;
  std::atomic<bool> ended_ = false;
};

class BytesInFlightTest : public ::testing::Test {
 protected:
  BytesInFlightTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out_ = FileDescriptor(ends[0]);
    in_ = FileDescriptor(ends[1]);
    zero_ = FileDescriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC));
    pipe_file_ = {.fd = out_.get(), .bytes = kIoAlignment};
    zero_file_ = {.fd = zero_.get(), .bytes = kIoAlignment};
  }

  void Open(std::uint64_t bytes_in_flight_max) {
    auto ring = MakeUringEngine({.bytes_in_flight_max = bytes_in_flight_max});
    if (!ring.ok()) GTEST_SKIP() << "io_uring is refused here: " << ring.status();
    engine_ = *std::move(ring);
  }

  /// Submits reads that end when there is something in the pipe.
  void Hold(int count) {
    for (int i = 0; i < count; ++i) {
      held_.push_back(std::make_unique<BlockRead>(pipe_file_));
      ASSERT_THAT(engine_->Submit(held_.back().get()), IsOk());
    }
  }

  /// Ends one of them.
  void EndOne() {
    const std::array<char, kIoAlignment> block{};
    ASSERT_EQ(write(in_.get(), block.data(), kIoAlignment), static_cast<ssize_t>(kIoAlignment));
  }

  /// Whatever has failed, reads end before the memory goes that they name.
  void TearDown() override {
    in_ = FileDescriptor();
    engine_.reset();
  }

  FileDescriptor out_, in_, zero_;
  IoFile pipe_file_, zero_file_;
  std::vector<std::unique_ptr<BlockRead>> held_;
  std::unique_ptr<IoEngine> engine_;
};

TEST_F(BytesInFlightTest, RequestsWaitWhileTheKernelHoldsTheLimit) {
  ASSERT_NO_FATAL_FAILURE(Open(3 * kIoAlignment));
  if (engine_ == nullptr) return;
  Hold(3);
  BlockRead other(zero_file_);
  ASSERT_THAT(engine_->Submit(&other), IsOk());
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(other.ended());
  EndOne();
  other.Await();
  EndOne();
  EndOne();
  for (const auto& read : held_) read->Await();
}

TEST_F(BytesInFlightTest, AStoreHasItsEngineKeepTheLimit) {
  const testing::TempDirectory directory;
  auto parts = MakePageStoreParts({.directory = directory.path(),
                                   .page_bytes = kIoAlignment,
                                   .slots = 8,
                                   .bytes_in_flight_max = 3 * kIoAlignment});
  ASSERT_THAT(parts, IsOk());
  if (parts->engine->name() != "io_uring") GTEST_SKIP() << parts->engine_reason;
  engine_ = std::move(parts->engine);
  Hold(3);
  BlockRead other(zero_file_);
  ASSERT_THAT(engine_->Submit(&other), IsOk());
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(other.ended());
  for (int i = 0; i < 3; ++i) EndOne();
  other.Await();
  for (const auto& read : held_) read->Await();
}

TEST_F(BytesInFlightTest, BelowTheLimitNothingWaits) {
  ASSERT_NO_FATAL_FAILURE(Open(3 * kIoAlignment + 1));
  if (engine_ == nullptr) return;
  Hold(3);
  BlockRead other(zero_file_);
  ASSERT_THAT(engine_->Submit(&other), IsOk());
  other.Await();
  for (int i = 0; i < 3; ++i) EndOne();
  for (const auto& read : held_) read->Await();
}

TEST_F(BytesInFlightTest, TwoRequestsMayAlwaysBeInFlight) {
  ASSERT_NO_FATAL_FAILURE(Open(0));
  if (engine_ == nullptr) return;
  Hold(1);
  BlockRead second(zero_file_);
  ASSERT_THAT(engine_->Submit(&second), IsOk());
  second.Await();
  Hold(1);
  BlockRead third(zero_file_);
  ASSERT_THAT(engine_->Submit(&third), IsOk());
  std::this_thread::sleep_for(kLong);
  EXPECT_FALSE(third.ended());
  EndOne();
  third.Await();
  EndOne();
  for (const auto& read : held_) read->Await();
}

}  // namespace
}  // namespace sluice::io
