#include "io/drives/disk_rates.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::io {
namespace {

using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

DiskRatesOptions Small(const testing::TempDirectory& temp) {
  return {.directory = temp.path(),
          .file_bytes = std::uint64_t{8} << 20,
          .block_bytes = std::uint64_t{256} << 10,
          .queue_depth = 4,
          .milliseconds = 20};
}

TEST(DiskRatesTest, MeasuresAllThreeAndLeavesNothing) {
  const testing::TempDirectory temp;
  for (const bool disable : {false, true}) {
    DiskRatesOptions options = Small(temp);
    options.io_uring = disable ? Use::kOff : Use::kAuto;
    const absl::StatusOr<DiskRates> rates = MeasureDiskRates(options);
    ASSERT_THAT(rates, IsOk());
    // Every measurement moves at least one block, and no disk moves a tebibyte a second.
    for (const double rate : {rates->read, rates->write, rates->mixed}) {
      EXPECT_GT(rate, 1e5);
      EXPECT_LT(rate, 1e12);
    }
    EXPECT_EQ(rates->engine_reason.empty(), rates->engine == "io_uring");
    EXPECT_EQ(rates->direct_reason.empty(), rates->direct);
    if (disable) {
      EXPECT_EQ(rates->engine, "threads");
    }
    EXPECT_EQ(temp.entries(), 0);
  }
}

TEST(DiskRatesTest, LittleMemoryTakesFewerRequestsThenSmallerBlocks) {
  const DiskRatesOptions wanted{.file_bytes = 3 << 20, .block_bytes = 1 << 20, .queue_depth = 32};
  const auto within = [&wanted](std::uint64_t bytes) {
    DiskRatesOptions options = wanted;
    options.memory_bytes_max = bytes;
    const DiskRatesOptions got = WithinMemory(options);
    EXPECT_LE(got.block_bytes * got.queue_depth, std::max<std::uint64_t>(bytes, 4 * 4096));
    EXPECT_EQ(got.file_bytes % got.block_bytes, 0u);
    return std::pair(got.block_bytes, got.queue_depth);
  };
  EXPECT_EQ(within(UINT64_MAX), std::pair(wanted.block_bytes, wanted.queue_depth));
  EXPECT_EQ(within(32 << 20), std::pair(wanted.block_bytes, wanted.queue_depth));
  EXPECT_EQ(within((32 << 20) - 1), std::pair(wanted.block_bytes, std::uint32_t{16}));
  EXPECT_EQ(within(1 << 20), std::pair(std::uint64_t{256} << 10, std::uint32_t{4}));
  EXPECT_EQ(within(1), std::pair(std::uint64_t{4096}, std::uint32_t{4}));
}

TEST(DiskRatesTest, RefusedThreadsAreAStatus) {
  const testing::TempDirectory temp;
  const std::string text = testing::RunInChild([&temp] {
    DiskRatesOptions options = Small(temp);
    options.io_uring = Use::kOff;
    const std::string failed =
        testing::RefuseSystemCall(SYS_clone3, EAGAIN, testing::Refuse::kEveryCall);
    return failed + MeasureDiskRates(options).status().ToString();
  });
  EXPECT_THAT(text,
              ::testing::StartsWith("RESOURCE_EXHAUSTED: a thread cannot be started: EAGAIN"));
}

// The kernel cancels a request that it has no worker thread for: `ulimit -u`, the user's to raise.
TEST(DiskRatesTest, CancelledRequestIsNamedAsALimit) {
  const testing::TempDirectory temp;
  const std::string text = testing::RunInChild([&temp] {
    DiskRatesOptions options = Small(temp);
    options.io_uring = Use::kOff;
    const std::string failed =
        testing::RefuseSystemCall(SYS_pwrite64, ECANCELED, testing::Refuse::kEveryCall);
    return failed + MeasureDiskRates(options).status().ToString();
  });
  EXPECT_THAT(text, ::testing::StartsWith("RESOURCE_EXHAUSTED: measuring the disk: ECANCELED"));
}

TEST(DiskRatesTest, BadOptionsAreRefused) {
  const testing::TempDirectory temp;
  const auto expect_invalid = [](const DiskRatesOptions& options) {
    EXPECT_THAT(MeasureDiskRates(options), IsStatus(Code::kInvalidArgument, "measuring the disk"));
  };
  DiskRatesOptions options = Small(temp);
  options.block_bytes = 512;
  expect_invalid(options);
  options.block_bytes = options.file_bytes * 2;
  expect_invalid(options);
  options.block_bytes = 3 * 4096;
  expect_invalid(options);
  options = Small(temp);
  options.queue_depth = 0;
  expect_invalid(options);
  options = Small(temp);
  options.milliseconds = 0;
  expect_invalid(options);
}

TEST(DiskRatesTest, DirectoryIsJudgedLikeAStores) {
  const testing::TempDirectory temp;
  DiskRatesOptions options = Small(temp);
  options.directory += "/missing";
  EXPECT_THAT(MeasureDiskRates(options), IsStatus(Code::kNotFound, "does not exist"));
}

}  // namespace
}  // namespace sluice::io
