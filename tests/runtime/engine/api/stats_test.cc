#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/mutex.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

/// Puts a tensor of 100 pages through every link, both ways.
TensorId MoveAround(RuntimeFixture& runtime) {
  const TensorId tensor = runtime.Make("t", 100 * kPage);
  const auto pattern = Pattern(1, 100 * kPage);
  runtime.Write(tensor, pattern, 0, kHbm0);
  EXPECT_EQ(runtime.Read(tensor, kHbm0), pattern);
  return tensor;
}

TEST(StatsTest, BytesAreCopiesTimesThePage) {
  RuntimeFixture runtime;
  runtime.Start();
  MoveAround(runtime);
  const Stats stats = runtime->GetStats();
  ASSERT_EQ(stats.links.size(), 2u);
  for (const auto& [name, link] : stats.links) {
    for (const DirectionStats& direction : {link.in, link.out}) {
      EXPECT_GT(direction.copies, 0u) << name;
      EXPECT_EQ(direction.bytes, direction.copies * kPage) << name;
      EXPECT_EQ(direction.failed, 0u) << name;
      EXPECT_GE(direction.latency.count + direction.queue_depth, direction.copies) << name;
      EXPECT_LE(direction.latency.p50_us, direction.latency.p99_us) << name;
      EXPECT_LE(direction.latency.p99_us, direction.latency.max_us) << name;
      EXPECT_GT(direction.busy_seconds, 0) << name;
      EXPECT_GE(direction.queue_depth_max, 1u) << name;
      EXPECT_LE(direction.queue_depth_max, 16u) << name;
    }
  }
  EXPECT_EQ(stats.pages_lost, 0u);
  EXPECT_GT(stats.stall_seconds, 0);
}

TEST(StatsTest, TiersStayWithinTheirBudgets) {
  RuntimeFixture runtime;
  runtime.Start();
  MoveAround(runtime);
  const Stats stats = runtime->GetStats();
  ASSERT_EQ(stats.tiers.size(), 3u);
  EXPECT_EQ(stats.tiers.at("hbm").budget_bytes, 16 * kPage);
  EXPECT_EQ(stats.tiers.at("dram").budget_bytes, 32 * kPage);
  EXPECT_EQ(stats.tiers.at("nvme").budget_bytes, 1024 * kPage);
  for (const auto& [name, tier] : stats.tiers) {
    EXPECT_GT(tier.peak_bytes, 0u) << name;
    EXPECT_LE(tier.used_bytes, tier.peak_bytes) << name;
    EXPECT_LE(tier.peak_bytes, tier.budget_bytes) << name;
    std::uint64_t by_kind = 0;
    for (const std::uint64_t bytes : tier.by_kind) by_kind += bytes;
    EXPECT_EQ(by_kind, tier.by_kind[static_cast<std::size_t>(TensorKind::kOther)]) << name;
  }
  EXPECT_EQ(stats.tiers.at("dram").arena_bytes, 32 * kPage);
}

TEST(StatsTest, LiveBytesFollowWritesDiscardsAndFrees) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId a = runtime.Make("a", 1000);
  const TensorId b = runtime.Make("b", 2 * kPage + 1);
  EXPECT_EQ(runtime->GetStats().live_bytes, 0u);
  EXPECT_EQ(runtime->GetStats().padding_bytes, 4 * kPage - 1000 - 2 * kPage - 1);
  runtime.Write(a, Pattern(1, 1000));
  EXPECT_EQ(runtime->GetStats().live_bytes, 1000u);
  runtime.Write(b, Pattern(2, 10), 7);
  EXPECT_EQ(runtime->GetStats().live_bytes, 1000 + 2 * kPage + 1);
  ASSERT_THAT(runtime->Discard(b, {0, kPage}), IsOk());
  EXPECT_EQ(runtime->GetStats().live_bytes, 1000 + 2 * kPage + 1) << "a part is no whole discard";
  ASSERT_THAT(runtime->Discard(b), IsOk());
  EXPECT_EQ(runtime->GetStats().live_bytes, 1000u);
  EXPECT_EQ(runtime->GetStats().live_bytes_peak, 1000 + 2 * kPage + 1);
  ASSERT_THAT(runtime->Free(a), IsOk());
  EXPECT_EQ(runtime->GetStats().live_bytes, 0u);
}

TEST(StatsTest, FallbacksAreAnnouncedOnceAndListed) {
  RuntimeFixture runtime;
  runtime.options.io.io_uring = Use::kOff;
  runtime.options.io.direct = Use::kOff;
  runtime.Start();
  MoveAround(runtime);
  const Stats stats = runtime->GetStats();
  EXPECT_EQ(stats.io.engine, "threads");
  EXPECT_FALSE(stats.io.direct);
  for (const std::string what : {"io_uring", "o_direct"}) {
    const auto is_it = [&](const FallbackEvent& event) { return event.what == what; };
    EXPECT_EQ(std::count_if(stats.fallbacks.begin(), stats.fallbacks.end(), is_it), 1) << what;
    const auto told = runtime.listener.fallbacks();
    EXPECT_EQ(std::count_if(told.begin(), told.end(), is_it), 1) << what;
    EXPECT_EQ(runtime.log.Count(what + " is not in use"), 1);
  }
  EXPECT_EQ(runtime->Health().state, HealthState::kDegraded);
  EXPECT_EQ(runtime->Health().reasons.size(), stats.fallbacks.size());
}

TEST(StatsTest, AHealthyRuntimeSaysSo) {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 256_KiB;
  runtime.options.hbm_bytes = 16_MiB;
  runtime.options.dram_bytes = 16_MiB;
  runtime.options.nvme_bytes = 16_MiB;
  runtime.Start();
  const Stats stats = runtime->GetStats();
  if (!stats.fallbacks.empty()) GTEST_SKIP() << "this machine lacks " << stats.fallbacks[0].what;
  EXPECT_EQ(runtime->Health().state, HealthState::kOk);
  EXPECT_TRUE(runtime->Health().reasons.empty());
  EXPECT_EQ(stats.tiers.at("dram").huge_page_share, 1.0);
}

TEST(StatsTest, ATierThatTakesNoPagesIsFencedAndOpsAreTold) {
  StoreFaults faults;
  RuntimeFixture runtime;
  runtime.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  const TensorId first = runtime.Make("first", 20 * kPage);
  const auto pattern = Pattern(1, 20 * kPage);
  runtime.Write(first, pattern);
  faults.FailWrites(absl::ResourceExhaustedError("write spill: ENOSPC (No space left on device)"));
  const TensorId second = runtime.Make("second", 60 * kPage);
  absl::Status failed;
  for (std::uint64_t page = 0; page < 60 && failed.ok(); ++page) {
    failed = runtime
                 .Acquire({.tensor = second,
                           .range = {page * kPage, kPage},
                           .mode = AccessMode::kOverwrite,
                           .tier = kDram0})
                 .status();
  }
  EXPECT_THAT(failed,
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "no room can be made, because nvme0 takes no pages: write spill: ENOSPC"));
  ASSERT_GE(runtime.listener.fenced().size(), 1u);
  EXPECT_EQ(runtime.listener.fenced()[0].tier, kNvme0);
  const HealthReport degraded = runtime->Health();
  EXPECT_EQ(degraded.state, HealthState::kDegraded);
  const auto takes_no_pages = [](const std::string& reason) {
    return reason.starts_with("nvme0 takes no pages: write spill: ENOSPC");
  };
  EXPECT_EQ(std::count_if(degraded.reasons.begin(), degraded.reasons.end(), takes_no_pages), 1);
  faults.FailWrites(absl::OkStatus());
  EXPECT_EQ(runtime.Read(first), pattern) << "nothing was lost";
  runtime.Write(second, Pattern(2, 60 * kPage));
  EXPECT_EQ(runtime.Read(second), Pattern(2, 60 * kPage)) << "the Runtime goes on";
  const HealthReport healed = runtime->Health();
  EXPECT_TRUE(std::none_of(healed.reasons.begin(), healed.reasons.end(), takes_no_pages));
  EXPECT_EQ(runtime.log.Count("nvme0 takes pages again"), 1);
}

TEST(StatsTest, ATransferThatTakesTooLongIsReported) {
  StoreFaults faults;
  RuntimeFixture runtime;
  runtime.options.stall_seconds = 0.02;
  runtime.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  const TensorId tensor = runtime.Make("slow", 100 * kPage);
  runtime.Write(tensor, Pattern(1, 100 * kPage));
  faults.Hold();
  Op op = runtime->BeginOp({.name = "reader"});
  const Access access{.tensor = tensor, .range = {0, kPage}, .tier = kDram0};
  Ticket ticket = op.AcquireAll({&access, 1});
  faults.WaitForHeld(1);
  while (runtime.listener.stalled().empty()) std::this_thread::yield();
  EXPECT_GE(runtime.log.Count("a transfer of tensor 'slow' from "), 1);
  const TransferStalledEvent event = runtime.listener.stalled()[0];
  EXPECT_EQ(event.tensor, "slow");
  EXPECT_GE(event.seconds, 0.02);
  EXPECT_EQ(runtime->Health().state, HealthState::kDegraded);
  faults.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
}

TEST(StatsTest, TheFrameOfAWriteThatTakesTooLongIsNotUsed) {
  constexpr std::uint64_t kBytes = RuntimeFixture::kDramPages * kPage;
  StoreFaults faults;
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.stall_seconds = 0.02;
  runtime.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  const TensorId other = runtime.Make("other", 8 * kPage);
  const TensorId slow = runtime.Make("slow", kBytes);
  faults.Hold();
  runtime.Write(slow, Pattern(1, kBytes));  // all of dram
  Op op = runtime->BeginOp({.name = "writer"});
  const Access access{.tensor = other,
                      .range = {0, 8 * kPage},
                      .mode = AccessMode::kOverwrite,
                      .tier = kDram0,
                      .contiguous = false};
  Ticket ticket = op.AcquireAll({&access, 1});
  while (runtime.listener.stalled().empty()) std::this_thread::yield();
  const TransferStalledEvent event = runtime.listener.stalled()[0];
  EXPECT_EQ(event.tensor, "slow");
  EXPECT_EQ(event.source, kDram0);
  EXPECT_EQ(event.target, kNvme0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ticket.Ready()) << "no write has ended";
  faults.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  op = Op();
  EXPECT_EQ(runtime.Read(slow), Pattern(1, kBytes));
}

TEST(StatsTest, TraceShowsTransfersAndStalls) {
  RuntimeFixture runtime;
  base::Mutex mutex;
  std::set<std::string> tracks;
  int backwards = 0;
  runtime.options.trace = [&](const TraceSpan& span) {
    base::MutexLock lock(mutex);
    tracks.insert(span.track);
    if (span.end < span.begin) ++backwards;
  };
  runtime.Start();
  MoveAround(runtime);
  runtime.Stop();
  EXPECT_EQ(tracks,
            (std::set<std::string>{
                "dram-nvme in", "dram-nvme out", "hbm-dram in", "hbm-dram out", "stall"}));
  EXPECT_EQ(backwards, 0);
}

TEST(StatsTest, EmulatedRatesHoldACopyBack) {
  RuntimeFixture runtime;
  runtime.Start();
  ASSERT_THAT(runtime->SetEmulatedRates(100.0 * kPage, 0), IsOk());
  const TensorId tensor = runtime.Make("t", 10 * kPage);
  runtime.Write(tensor, Pattern(1, 10 * kPage));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(runtime.Acquire({.tensor = tensor, .tier = kHbm0}), IsOk());
  const auto spent = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(std::chrono::duration<double>(spent).count(), 0.09);
}

TEST(StatsTest, EmulatedRatesNeedAnEmulatedDevice) {
  RuntimeFixture runtime;
  runtime.options.hbm_bytes = Bytes();
  runtime.Start();
  EXPECT_THAT(runtime->SetEmulatedRates(1, 1), HasCode(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace sluice
