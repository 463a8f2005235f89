#include "runtime/device/copy_rates.h"

#include <sys/syscall.h>

#include <cerrno>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "numa/arena.h"
#include "runtime/device/emulated_device.h"
#include "tests/support/child_process.h"
#include "tests/support/file_size_limit.h"

namespace sluice::device {
namespace {

constexpr std::uint64_t kPageBytes = 64 << 10;

struct Bench {
  std::unique_ptr<EmulatedDevice> device;
  std::unique_ptr<numa::Arena> host;
  DeviceCopyOptions options;
};

Bench MakeBench(const EmulatedRates& rates) {
  Bench bench;
  auto device = EmulatedDevice::Create({.page_bytes = kPageBytes, .frames = 8, .rates = rates});
  EXPECT_TRUE(device.ok()) << device.status();
  bench.device = *std::move(device);
  auto host = numa::Arena::Create({.name = "test", .page_bytes = kPageBytes, .frames = 8});
  EXPECT_TRUE(host.ok()) << host.status();
  bench.host = *std::move(host);
  bench.options.frames.resize(8);
  std::iota(bench.options.frames.begin(), bench.options.frames.end(), 0u);
  for (std::uint32_t page = 0; page < 8; ++page) {
    bench.options.host.push_back(bench.host->Frame(page));
  }
  bench.options.milliseconds = 50;
  return bench;
}

TEST(CopyRatesTest, ADeviceIsNotFasterThanItsModel) {
  Bench bench = MakeBench({.in_bytes_per_second = 20e6, .out_bytes_per_second = 10e6});
  const auto rates = MeasureCopyRates(*bench.device, bench.options);
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->in, 0);
  EXPECT_LE(rates->in, 20e6 * 1.001);
  EXPECT_GT(rates->out, 0);
  EXPECT_LE(rates->out, 10e6 * 1.001);
  EXPECT_GT(rates->both, 0);
  EXPECT_LE(rates->both, 30e6 * 1.001);
}

TEST(CopyRatesTest, ALinkSlowerThanTheTimeGivenHasARateStill) {
  Bench bench = MakeBench({.in_bytes_per_second = 1e6, .out_bytes_per_second = 1e6});
  bench.options.milliseconds = 1;  // a page takes 65
  bench.options.depth = 1;
  const auto rates = MeasureCopyRates(*bench.device, bench.options);
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->in, 0);
  EXPECT_LE(rates->in, 1e6);
}

constexpr char kNoThread[] = "RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN";

TEST(CopyRatesTest, RefusedThreadsAreAStatus) {
  const std::string text = testing::RunInChild([] {
    Bench bench = MakeBench({});
    const std::string failed =
        testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
    return failed + MeasureCopyRates(*bench.device, bench.options).status().ToString();
  });
  EXPECT_THAT(text, ::testing::StartsWith(kNoThread));
}

TEST(CopyRatesTest, RefusesTooLittle) {
  Bench bench = MakeBench({});
  DeviceCopyOptions few = bench.options;
  few.frames.resize(1);
  EXPECT_FALSE(MeasureCopyRates(*bench.device, few).ok());
  few = bench.options;
  few.host[3] = few.host[3].first(100);
  EXPECT_EQ(MeasureCopyRates(*bench.device, few).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CopyRatesTest, ThePlainLoopMovesBytesBothWays) {
  const auto rates =
      MeasurePlainCopyRates({.page_bytes = kPageBytes, .pages = 32, .milliseconds = 20});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_GT(rates->in, 0);
  EXPECT_GT(rates->out, 0);
  EXPECT_GT(rates->both, 0);
  EXPECT_FALSE(MeasurePlainCopyRates({.milliseconds = 0}).ok());
}

TEST(CopyRatesTest, ThePlainLoopKeepsToItsMemory) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto bytes = [](const PlainCopyOptions& o) { return 4 * o.pages * o.page_bytes; };
  const PlainCopyOptions usual = PlainCopiesWithin(256 << 10, UINT64_MAX);
  EXPECT_EQ(usual.page_bytes, 256u << 10);
  EXPECT_EQ(bytes(usual), 128 * kMiB);
  EXPECT_EQ(bytes(PlainCopiesWithin(256 << 10, 16 * kMiB)), 16 * kMiB);
  EXPECT_EQ(PlainCopiesWithin(64 * kMiB, UINT64_MAX).page_bytes, 16 * kMiB) << "two in an arena";
  for (const std::uint64_t page : {std::uint64_t{4096}, 2 * kMiB, 64 * kMiB}) {
    for (std::uint64_t memory = 32 << 10; memory <= 256 * kMiB; memory = memory * 3 / 2) {
      const PlainCopyOptions options = PlainCopiesWithin(page, memory);
      EXPECT_LE(bytes(options), memory) << page;
      EXPECT_GE(options.pages, 2u) << page;
    }
  }
  EXPECT_EQ(bytes(PlainCopiesWithin(4096, 0)), 32u << 10) << "the least";
  const testing::FileSizeLimit limit(9 * kMiB);
  EXPECT_EQ(bytes(PlainCopiesWithin(1 * kMiB, UINT64_MAX)), 36 * kMiB) << "an arena is a file";
}

}  // namespace
}  // namespace sluice::device
