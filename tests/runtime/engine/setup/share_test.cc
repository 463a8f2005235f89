// The part of the host's figures that each process of a share has.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/setup/backends.h"
#include "runtime/engine/setup/option_limits.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;

constexpr std::uint32_t kProcesses[] = {1, 2, 3, 8};

/// Whether `part` is a whole that is divided and rounded down.
bool IsPart(std::uint64_t part, std::uint64_t processes, std::uint64_t whole) {
  return part * processes <= whole && (part + 1) * processes > whole;
}

RuntimeOptions OptionsOf(std::uint32_t processes) {
  RuntimeOptions options;
  options.page_bytes = Bytes(kPage);
  options.share = {.index = processes - 1, .count = processes};
  return options;
}

TEST(ShareTest, BudgetsAreDividedAndTogetherNeverMoreThanTheWhole) {
  for (const std::uint32_t processes : kProcesses) {
    for (const std::uint64_t bytes : {24 * kPage, 25 * kPage - 1, 97 * kPage + 1, 1000 * kPage}) {
      RuntimeOptions options = OptionsOf(processes);
      options.dram_bytes = Bytes(bytes);
      options.nvme_bytes = Bytes(3 * bytes);
      options.hbm_bytes = Bytes();
      options.io.more_directories = {"second"};
      const auto frames = engine::CountFrames(options);
      ASSERT_THAT(frames, IsOk());
      EXPECT_TRUE(IsPart(frames->dram, processes, bytes / kPage)) << processes << ", " << bytes;
      EXPECT_TRUE(IsPart(frames->nvme, processes, 3 * bytes / kPage)) << processes << ", " << bytes;
    }
  }
}

TEST(ShareTest, HbmIsOfEachProcess) {
  RuntimeOptions options = OptionsOf(8);
  options.hbm_bytes = Bytes(7 * kPage);
  options.dram_bytes = Bytes(40 * kPage);
  const auto frames = engine::CountFrames(options);
  ASSERT_THAT(frames, IsOk());
  EXPECT_EQ(frames->hbm, 7u);
}

TEST(ShareTest, RequestsAndThreadsAreDividedButForOneEach) {
  for (const std::uint32_t processes : kProcesses) {
    for (const std::uint32_t whole : {1u, 2u, 7u, 32u, 1000u}) {
      RuntimeOptions options = OptionsOf(processes);
      options.io.queue_depth = whole;
      options.io.bytes_in_flight = Bytes(whole);
      options.worker_threads = static_cast<int>(whole);
      engine::DivideCounts(&options);
      EXPECT_TRUE(IsPart(options.io.bytes_in_flight.count(), processes, whole));
      const std::uint32_t depth = options.io.queue_depth;
      EXPECT_TRUE(whole < processes ? depth == 1 : IsPart(depth, processes, whole))
          << depth << " of " << whole << " for " << processes;
      EXPECT_EQ(options.worker_threads, static_cast<int>(depth));
    }
  }
}

TEST(ShareTest, ARuntimeHasItsPart) {
  RuntimeFixture runtime;
  runtime.options.share = {.index = 1, .count = 4};
  runtime.options.io.queue_depth = 50;
  runtime.hooks.record_events = true;
  runtime.Start();
  const Stats stats = runtime->GetStats();
  EXPECT_EQ(stats.tiers.at("dram").budget_bytes, RuntimeFixture::kDramPages / 4 * kPage);
  EXPECT_EQ(stats.tiers.at("nvme").budget_bytes, RuntimeFixture::kNvmePages / 4 * kPage);
  const auto* log = internal::RuntimeAccess::StateOf(*runtime).event_log();
  EXPECT_EQ(log->options().copies_in_flight_max, 6u) << "half of the 12 requests of a drive";
}

/// The budget that a refusal names is the least that will do.
TEST(ShareTest, ABudgetThatCannotBeDividedIsNamedWithTheLeastOne) {
  RuntimeOptions options = OptionsOf(3);
  options.hbm_bytes = Bytes(kPage);
  options.dram_bytes = Bytes(14 * kPage);
  EXPECT_THAT(engine::CountFrames(options),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "tiers.dram.bytes is 56 KiB, of which this process has 1/3; at least 60 KiB "
                       "(5 pages for each process) are needed"));
  options.dram_bytes = Bytes(15 * kPage);
  EXPECT_THAT(engine::CountFrames(options), IsOk());
  options.io.more_directories = {"second"};
  options.nvme_bytes = Bytes(5 * kPage);
  EXPECT_THAT(engine::CountFrames(options),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "tiers.nvme.bytes is 20 KiB, of which this process has 1/3; at least 24 KiB "
                       "(2 pages for each process) are needed"));
  options.nvme_bytes = Bytes(6 * kPage);
  EXPECT_THAT(engine::CountFrames(options), IsOk());
}

}  // namespace
}  // namespace sluice
