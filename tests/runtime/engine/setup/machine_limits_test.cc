// Options that meet the limits of the machine.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "base/thread.h"
#include "numa/memory_limits.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/setup/memory_needs.h"
#include "runtime/engine/setup/option_limits.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::RuntimeFixture;

TEST(MachineLimitsTest, EveryPageMayNeedTwoMappings) {
  std::uint64_t mappings_max = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings_max;
  if (mappings_max == 0 || mappings_max > (1u << 18))
    GTEST_SKIP() << "a test of so many mappings needs much memory";
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = Bytes(mappings_max / 4 * 3 * RuntimeFixture::kPage);
  EXPECT_THAT(internal::RuntimeAccess::Create(runtime.options, {}),
              IsStatus(absl::StatusCode::kResourceExhausted, "vm.max_map_count allows"));
}

TEST(MachineLimitsTest, ProcessesOfAShareDivideLockedMemory) {
  numa::MemoryLimits limits{.memlock_bytes = std::uint64_t{8} << 30};
  constexpr auto kAll = std::numeric_limits<std::uint64_t>::max();
  RuntimeOptions alone;
  alone.io.more_directories = {"second"};
  alone.io.queue_depth = 8;
  RuntimeOptions one_of_four = alone;
  one_of_four.share = {.index = 1, .count = 4};
  const std::uint64_t part = std::uint64_t{1} << 30;
  const std::uint64_t locked = engine::LockedBytesMax(limits, one_of_four);
  EXPECT_LT(locked, part) << "rings have room";
  EXPECT_GT(locked, part - (64 << 10));
  EXPECT_EQ(engine::LockedBytesMax(limits, alone), kAll);
  limits.memlock_bytes = 4096;
  EXPECT_EQ(engine::LockedBytesMax(limits, one_of_four), 0u);
  limits.memlock_exempt = true;
  EXPECT_EQ(engine::LockedBytesMax(limits, one_of_four), kAll);
  limits = {};
  EXPECT_EQ(engine::LockedBytesMax(limits, one_of_four), kAll);
}

/// Log of one of `processes` about its 4 MiB of dram, under a limit of 6 MiB for all.
std::string LogOfOneOf(std::uint32_t processes) {
  return testing::RunInChild([&]() -> std::string {
    const std::string failed = testing::LimitLockedMemory(6 << 20);
    if (!failed.empty()) return failed;
    RuntimeFixture runtime;
    runtime.options.hbm_bytes = Bytes();
    runtime.options.dram_bytes = Bytes(processes * (4_MiB).count());
    runtime.options.nvme_bytes = Bytes(processes * (16_MiB).count());
    runtime.options.io.io_uring = Use::kRequire;
    runtime.options.share.count = processes;
    const auto made = internal::RuntimeAccess::Create(runtime.options, runtime.hooks);
    return made.ok() ? "log: " + runtime.log.All() : made.status().ToString();
  });
}

TEST(MachineLimitsTest, AProcessLocksNoMoreThanItsShare) {
  const std::string alone = LogOfOneOf(1);
  if (!alone.starts_with("log: ")) GTEST_SKIP() << alone;
  if (alone.find("of the memory of dram in advance") != std::string::npos) GTEST_SKIP() << alone;
  const std::string reason = "this process has 3104768 bytes of the limit of locked memory";
  EXPECT_NE(LogOfOneOf(2).find(reason), std::string::npos);
}

TEST(MachineLimitsTest, ABudgetBeyondMemoryIsRefusedWithItsSumAndTheLimit) {
  const auto limits = numa::ReadMemoryLimits();
  ASSERT_THAT(limits, IsOk());
  RuntimeFixture runtime;
  runtime.options.page_bytes = 64_MiB;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = Bytes(limits->total_bytes) + 64_MiB;
  runtime.options.nvme_bytes = 256_MiB;
  const absl::Status status = internal::RuntimeAccess::Create(runtime.options, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"the runtime takes ",
                           " for frames of dram, ",
                           "threads of the runtime",
                           " are available (",
                           "lower tiers.dram.bytes or tiers.hbm.bytes, or raise that limit"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status << "\n" << part;
  }
}

TEST(MachineLimitsTest, TheTierThatTakesTheMostIsNamed) {
  RuntimeOptions options;
  options.page_bytes = 64_KiB;
  // Tables take 64 bytes for each slot.
  const auto way = [&](core::FrameIndex nvme) {
    return engine::WayToTakeLess(options, {.hbm = 16, .dram = 16, .nvme = nvme});
  };
  EXPECT_EQ(way(32 * 1024), "lower tiers.dram.bytes or tiers.hbm.bytes");
  EXPECT_EQ(way(32 * 1024 + 1), "lower tiers.nvme.bytes or use larger pages");
}

std::uint64_t BytesFor(const numa::MemorySum& sum, const std::string& name) {
  for (const numa::MemoryTerm& term : sum.terms()) {
    if (term.name == name) return term.bytes;
  }
  return 0;
}

TEST(MachineLimitsTest, TheSumNamesWhatARuntimeTakes) {
  RuntimeOptions options;
  options.page_bytes = 64_KiB;
  const engine::FrameCounts frames{.hbm = 16, .dram = 1024, .nvme = 4096};
  const numa::MemorySum sum = engine::MemoryOf(options, frames);
  EXPECT_EQ(BytesFor(sum, "frames of dram"), (64_MiB).count());
  EXPECT_EQ(BytesFor(sum, "frames of the emulated hbm"), (1_MiB).count());
  EXPECT_EQ(BytesFor(sum, "tables of 5136 frames and slots"), 5136u * 64);
  EXPECT_EQ(BytesFor(sum, "7 threads of the runtime"), 7 * engine::kThreadBytes);
  EXPECT_EQ(BytesFor(sum, "the stacks of 7 threads of the runtime"),
            7 * (base::StackBytes() - engine::kThreadBytes));
  EXPECT_GT(BytesFor(sum, "the kernel's tables of mapped and registered memory"), 0u);
  options.worker_threads = 4;
  options.io.more_directories = {"a", "b"};
  EXPECT_EQ(engine::MemoryOf(options, frames).bytes(), sum.bytes() + 5 * engine::kThreadBytes);
}

TEST(MachineLimitsTest, HbmOfAGpuIsNoMemoryOfTheHost) {
  RuntimeOptions options;
  options.page_bytes = 2_MiB;
  const engine::FrameCounts frames{.hbm = 1 << 20, .dram = 1024};
  options.device = DeviceKind::kCuda;
  const numa::MemorySum sum = engine::MemoryOf(options, frames);
  EXPECT_EQ(BytesFor(sum, "frames of the emulated hbm"), 0u);
  EXPECT_THAT(engine::CheckMachine(options, {.hbm = 1 << 20, .dram = 16}), IsOk());
  options.device = DeviceKind::kEmulated;
  EXPECT_GT(engine::MemoryOf(options, frames).bytes(), sum.bytes() + (2048_GiB).count());
}

TEST(MachineLimitsTest, AJobIsCountedUpToWhatIsRecorded) {
  RuntimeOptions options;
  options.recorded_accesses_max = 1000;
  const engine::JobSize job{.tensor_pages = 10, .ops = 100, .page_accesses = 900};
  const std::uint64_t bytes = engine::MemoryOfJob(job, options).bytes();
  engine::JobSize longer = job;
  longer.page_accesses *= 2;
  EXPECT_EQ(engine::MemoryOfJob(longer, options).bytes(), bytes);
  longer.tensor_pages += 1;
  EXPECT_GT(engine::MemoryOfJob(longer, options).bytes(), bytes);
}

TEST(MachineLimitsTest, ProcessorsThatCannotBeUsedAreNamed) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int usable = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(usable), &allowed)) ++usable;
  RuntimeFixture runtime;
  runtime.options.cpus = {usable, 1023, 100'000};
  EXPECT_THAT(internal::RuntimeAccess::Create(runtime.options, {}),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "\"workers.cpus\" holds 1023, 100000: no processors that this process"));
  runtime.options.cpus = {usable};
  EXPECT_THAT(internal::RuntimeAccess::Create(runtime.options, {}), IsOk());
}

TEST(MachineLimitsTest, ATopologyThatTheContainerRefusesIsNamed) {
  SLUICE_SKIP_AFFINITY_UNDER_SANITIZERS();
  const std::string text = testing::RunInChild([]() -> std::string {
    std::string failed =
        testing::RefuseSystemCall(SYS_sched_getaffinity, EPERM, testing::Refuse::kEveryCall);
    RuntimeFixture runtime;
    if (!failed.empty()) return failed;
    return internal::RuntimeAccess::Create(runtime.options, {}).status().ToString();
  });
  EXPECT_TRUE(text.starts_with("FAILED_PRECONDITION: sched_getaffinity is refused (EPERM)"))
      << text;
}

std::uint32_t CopiesInFlightMax(std::uint32_t queue_depth) {
  RuntimeFixture runtime;
  runtime.options.io.queue_depth = queue_depth;
  runtime.Start();
  const auto* log = internal::RuntimeAccess::StateOf(*runtime).event_log();
  return log->options().copies_in_flight_max;
}

TEST(MachineLimitsTest, TheQueueDepthBoundsTheCopiesInFlight) {
  EXPECT_EQ(CopiesInFlightMax(1), 1u);
  EXPECT_EQ(CopiesInFlightMax(8), 4u);
  EXPECT_EQ(CopiesInFlightMax(RuntimeOptions().io.queue_depth), 16u)
      << "the default depth is that of the measurements";
  EXPECT_EQ(CopiesInFlightMax(128), 64u);
  EXPECT_EQ(CopiesInFlightMax(1024), 128u) << "an eighth of nvme";
}

}  // namespace
}  // namespace sluice
