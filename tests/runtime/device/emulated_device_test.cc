#include "runtime/device/emulated_device.h"

#include <chrono>
#include <cstring>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/runtime/device/device_contract.h"
#include "tests/support/memory_probe.h"

namespace sluice::device {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint64_t kEmulatedPageBytes = 64 << 10;

DeviceFactory Emulated(std::string name, EmulatedRates rates, bool huge_pages) {
  return {
      .name = std::move(name),
      .page_bytes = kEmulatedPageBytes,
      .make =
          [=](std::uint32_t frames) {
            return EmulatedDevice::Create({.page_bytes = kEmulatedPageBytes,
                                           .frames = frames,
                                           .rates = rates,
                                           .huge_pages = huge_pages});
          },
      .accessible = testing::IsReadable,
      .read = [](const std::byte* from,
                 std::span<std::byte> host) { std::memcpy(host.data(), from, host.size()); },
      .write = [](std::byte* to,
                  std::span<const std::byte> host) { std::memcpy(to, host.data(), host.size()); }};
}

INSTANTIATE_TEST_SUITE_P(
    Emulated,
    DeviceContractTest,
    ::testing::Values(Emulated("Unpaced", {}, true),
                      Emulated("Paced",
                               {.in_bytes_per_second = 400e6,
                                .out_bytes_per_second = 200e6,
                                .latency_seconds = 100e-6},
                               true),
                      Emulated("LatencyOnSmallPages", {.latency_seconds = 200e-6}, false)),
    [](const auto& instance) { return instance.param.name; });

/// Lower limits of time only: a busy machine may take longer, never less.
class EmulatedDevicePacingTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPageBytes = kEmulatedPageBytes;

  std::unique_ptr<EmulatedDevice> Make(const EmulatedRates& rates) {
    auto device =
        EmulatedDevice::Create({.page_bytes = kEmulatedPageBytes, .frames = 8, .rates = rates});
    EXPECT_TRUE(device.ok()) << device.status();
    return *std::move(device);
  }
  /// Copies pages in and tells how long all of them took.
  Clock::duration TimeCopiesIn(EmulatedDevice& device, int count) {
    Completions done(count);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) {
      device.CopyIn(host_, static_cast<std::uint32_t>(i % 8), done.Done());
    }
    done.Wait();
    return Clock::now() - start;
  }

  std::vector<std::byte> host_ = std::vector<std::byte>(kPageBytes);
};

TEST_F(EmulatedDevicePacingTest, CopiesTakeNoLessThanTheirBytesAtTheRate) {
  // 10 pages of 64 KiB at 6.5536 MB/s: 10 ms each.
  const auto device = Make({.in_bytes_per_second = 6'553'600.0});
  EXPECT_GE(TimeCopiesIn(*device, 10), milliseconds(100));
}

TEST_F(EmulatedDevicePacingTest, LatencyComesOnTopOnce) {
  const auto device = Make({.in_bytes_per_second = 6'553'600.0, .latency_seconds = 0.05});
  EXPECT_GE(TimeCopiesIn(*device, 4), milliseconds(90));
}

TEST_F(EmulatedDevicePacingTest, NewRatesHoldForCopiesThatHaveNotStarted) {
  // A page takes a week at the first rate.
  const auto device = Make({.in_bytes_per_second = 0.1, .out_bytes_per_second = 0.1});
  device->SetRates({.in_bytes_per_second = 6'553'600.0});
  EXPECT_GE(TimeCopiesIn(*device, 3), milliseconds(30));
  Completions done(1);
  device->CopyOut(0, host_, done.Done());
  done.Wait();
}

TEST_F(EmulatedDevicePacingTest, OneDirectionDoesNotHoldUpTheOther) {
  // The completion of the first copy in holds its direction until the copies out are done.
  const auto device = Make({.in_bytes_per_second = 100e6, .out_bytes_per_second = 100e6});
  std::latch held(1);
  std::latch in_done(2);
  device->CopyIn(host_, 0, [&](const absl::Status&) {
    held.wait();
    in_done.count_down();
  });
  device->CopyIn(host_, 1, [&](const absl::Status&) { in_done.count_down(); });
  std::vector<std::byte> target(kPageBytes);
  Completions out(4);
  for (std::uint32_t frame = 2; frame < 6; ++frame) device->CopyOut(frame, target, out.Done());
  out.Wait();
  EXPECT_FALSE(in_done.try_wait());
  held.count_down();
  in_done.wait();
}

TEST(EmulatedDeviceTest, ForwardsWhatItsMemoryIs) {
  const auto device =
      EmulatedDevice::Create({.page_bytes = 256 << 10, .frames = 64, .huge_pages = true});
  ASSERT_TRUE(device.ok()) << device.status();
  if (!(*device)->arena_info().huge_page_reason.empty()) {
    GTEST_SKIP() << (*device)->arena_info().huge_page_reason;
  }
  EXPECT_GT((*device)->huge_page_share(), 0.9);
}

TEST(EmulatedDeviceTest, RefusesBadOptions) {
  EXPECT_EQ(EmulatedDevice::Create({.page_bytes = 100, .frames = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EmulatedDevice::Create({.page_bytes = 4096, .frames = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EmulatedDevice::Create(
                {.page_bytes = 4096, .frames = 1, .rates = {.in_bytes_per_second = -1}})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EmulatedDeviceDeathTest, ARangeOfAnotherKindIsNotMapped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  class Foreign : public DeviceRange {
   public:
    std::byte* base() const override { return nullptr; }
    std::uint64_t bytes() const override { return 4096; }
  };
  auto device = EmulatedDevice::Create({.page_bytes = 4096, .frames = 1});
  ASSERT_TRUE(device.ok()) << device.status();
  Foreign range;
  EXPECT_DEATH((*device)->Map(range, 0, 0).IgnoreError(), "by the device that reserved it");
}

}  // namespace
}  // namespace sluice::device
