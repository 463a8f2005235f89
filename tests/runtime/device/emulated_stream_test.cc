#include "runtime/device/emulated_stream.h"

#include <algorithm>
#include <cstddef>
#include <latch>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/device/emulated_device.h"
#include "tests/runtime/device/device_contract.h"

namespace sluice::device {
namespace {

/// Host work on a stream, which the emulated device runs in place of kernels.
class EmulatedStreamTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPageBytes = 64 << 10;

  void SetUp() override {
    auto device = EmulatedDevice::Create({.page_bytes = kPageBytes, .frames = 4});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  std::unique_ptr<EmulatedDevice> device_;
};

TEST_F(EmulatedStreamTest, AStreamRunsItsWorkInOrder) {
  const auto stream = device_->CreateStream().value();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    stream->Enqueue([&order, i] { order.push_back(i); });
  }
  stream->Synchronize();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(EmulatedStreamTest, ANotificationComesAfterTheWorkBefore) {
  const auto stream = device_->CreateStream().value();
  std::latch go(1);
  std::latch notified(1);
  bool ran = false;
  bool ran_before = false;
  stream->Enqueue([&] {
    go.wait();
    ran = true;
  });
  const absl::Status taken = stream->Notify([&](const absl::Status& status) {
    ran_before = ran && status.ok();
    notified.count_down();
  });
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_FALSE(notified.try_wait());
  go.count_down();
  notified.wait();
  EXPECT_TRUE(ran_before);
}

TEST_F(EmulatedStreamTest, StreamsAreIndependentOfEachOtherAndOfCopies) {
  const auto blocked = device_->CreateStream().value();
  const auto free = device_->CreateStream().value();
  std::latch go(1);
  blocked->Enqueue([&] { go.wait(); });
  int ran = 0;
  free->Enqueue([&] { ++ran; });
  free->Synchronize();
  EXPECT_EQ(ran, 1);
  std::vector<std::byte> page(kPageBytes);
  Completions copied(1);
  device_->CopyIn(page, 0, copied.Done());
  copied.Wait();
  go.count_down();
  blocked->Synchronize();
}

TEST_F(EmulatedStreamTest, WorkOfAStreamMayEnqueueMore) {
  const auto stream = device_->CreateStream().value();
  std::latch done(1);
  stream->Enqueue([&] { stream->Enqueue([&] { done.count_down(); }); });
  done.wait();
  EXPECT_TRUE(done.try_wait());
}

TEST_F(EmulatedStreamTest, DestroyingAStreamDrainsIt) {
  int ran = 0;
  auto stream = device_->CreateStream().value();
  for (int i = 0; i < 50; ++i) stream->Enqueue([&] { ++ran; });
  stream.reset();
  EXPECT_EQ(ran, 50);
}

}  // namespace
}  // namespace sluice::device
