#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>
#include <utility>

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

TEST(BudgetTest, AnOpThatCanNeverFitIsNamedWithWhatItNeeds) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("big", 20 * kPage);
  Op op = runtime->BeginOp({.name = "matmul"});
  const Access access{.tensor = tensor, .tier = kHbm0};
  EXPECT_THAT(
      op.Acquire(access),
      IsStatus(absl::StatusCode::kResourceExhausted,
               "op 'matmul' needs 80 KiB in hbm0 (20 pages), the budget of 64 KiB allows 64 KiB: "
               "raise tiers.hbm.bytes to 80 KiB or split the op"));
}

TEST(BudgetTest, AnOpThatCanNeverFitIsToldWhatIsKeptBesideIt) {
  RuntimeFixture runtime;
  runtime.options.dram_bytes = Bytes(8 * kPage);
  runtime.Start();
  const TensorId tensor = runtime.Make("big", 6 * kPage);
  EXPECT_THAT(runtime.Acquire({.tensor = tensor, .tier = kDram0}),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "needs 24 KiB in dram0 (6 pages), the budget of 32 KiB less 16 KiB for "
                       "pages in transit, reservations and tensors that stay allows 16 KiB: raise "
                       "tiers.dram.bytes to 40 KiB or"));
  runtime.Stop();
  runtime.options.dram_bytes = Bytes(10 * kPage);
  runtime.Start();
  const TensorId again = runtime.Make("big", 6 * kPage);
  EXPECT_THAT(runtime.Acquire({.tensor = again, .tier = kDram0}), IsOk());
}

TEST(BudgetTest, TwoOpsThatHoldAndWaitWouldDeadlock) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId a = runtime.Make("a", 10 * kPage);
  const TensorId b = runtime.Make("b", 10 * kPage);
  Op op = runtime->BeginOp({.name = "greedy"});
  const Access first{.tensor = a, .tier = kHbm0};
  const Access second{.tensor = b, .tier = kHbm0};
  auto held = op.Acquire(first);
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(op.Acquire(second),
              IsStatus(absl::StatusCode::kAborted, "op 'greedy' would deadlock"));
  held->Release();
  EXPECT_THAT(op.Acquire(second), IsOk());
}

TEST(BudgetTest, CapacityIsCommittedAtCreation) {
  RuntimeFixture runtime;
  runtime.Start();
  const auto refused = runtime->CreateTensor(ByteTensor("huge", 2000 * kPage));
  EXPECT_THAT(refused,
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "tensor 'huge' needs 7.81 MiB, and 4.03 MiB are left"));
  EXPECT_THAT(refused, IsStatus(absl::StatusCode::kResourceExhausted, "raise tiers.nvme.bytes"));
  runtime.Make("fits", 900 * kPage);
}

TEST(BudgetTest, ReservedFramesAreTheOwnersAlone) {
  RuntimeFixture runtime;
  runtime.Start();
  auto reservation = runtime->Reserve(kDram0, Bytes(9 * kPage + 1));
  ASSERT_THAT(reservation, IsOk());
  ASSERT_EQ(reservation->Spans().size(), 10u);
  for (const std::span<std::byte> span : reservation->Spans()) {
    ASSERT_EQ(span.size(), kPage);
    std::fill(span.begin(), span.end(), std::byte{0x5a});
  }
  const TensorId tensor = runtime.Make("t", 100 * kPage);
  const auto pattern = Pattern(1, 100 * kPage);
  runtime.Write(tensor, pattern);
  EXPECT_EQ(runtime.Read(tensor, kHbm0), pattern);
  for (const std::span<std::byte> span : reservation->Spans()) {
    for (const std::byte byte : span) ASSERT_EQ(byte, std::byte{0x5a});
  }
  EXPECT_THAT(runtime->Reserve(kDram0, Bytes(20 * kPage)),
              IsStatus(absl::StatusCode::kResourceExhausted, "80 KiB cannot be reserved in dram0"));
  *reservation = Reservation();
  EXPECT_THAT(runtime->Reserve(kDram0, Bytes(20 * kPage)), IsOk());
}

TEST(BudgetTest, ReserveRefusesWhatIsNoMemoryTier) {
  RuntimeFixture runtime;
  runtime.Start();
  EXPECT_THAT(runtime->Reserve(kNvme0, Bytes(kPage)),
              IsStatus(absl::StatusCode::kInvalidArgument, "this runtime leases in hbm0, dram0"));
  EXPECT_THAT(runtime->Reserve(TierId{TierKind::kDram, 1}, Bytes(kPage)),
              IsStatus(absl::StatusCode::kInvalidArgument, "dram1 does not exist"));
  EXPECT_THAT(runtime->Reserve(kHbm0, Bytes()), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST(BudgetTest, ShrunkMemoryIsBackWithTheSystem) {
  RuntimeFixture runtime;
  runtime.options.dram_bytes = 32_MiB;  // eight chunks
  runtime.options.hbm_bytes = 32_MiB;
  runtime.Start();
  for (const TierId tier : {kDram0, kHbm0}) {
    const std::string name(ToString(tier.kind));
    ASSERT_EQ(runtime->GetStats().tiers.at(name).arena_bytes, (32_MiB).count());
    ASSERT_THAT(runtime->SetBudget(tier, 8_MiB), IsOk());
    EXPECT_EQ(runtime->GetStats().tiers.at(name).arena_bytes, (8_MiB).count());
    EXPECT_EQ(runtime->GetStats().tiers.at(name).budget_bytes, (8_MiB).count());
    ASSERT_THAT(runtime->SetBudget(tier, 32_MiB), IsOk());
    EXPECT_EQ(runtime->GetStats().tiers.at(name).arena_bytes, (32_MiB).count());
    EXPECT_THAT(runtime->SetBudget(tier, 33_MiB), HasCode(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(runtime->SetBudget(kNvme0, 1_MiB), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST(BudgetTest, RegisteredMemoryFollowsTheBudget) {
  RuntimeFixture runtime;
  runtime.options.dram_bytes = 32_MiB;
  runtime.Start();
  if (const IoStats io = runtime->GetStats().io; !io.registered_reason.empty()) {
    GTEST_SKIP() << io.registered_reason;
  }
  EXPECT_EQ(runtime->GetStats().io.registered_bytes, (32_MiB).count());
  ASSERT_THAT(runtime->SetBudget(kDram0, 8_MiB), IsOk());
  EXPECT_EQ(runtime->GetStats().io.registered_bytes, (8_MiB).count());
  ASSERT_THAT(runtime->SetBudget(kDram0, 32_MiB), IsOk());
  EXPECT_EQ(runtime->GetStats().io.registered_bytes, (32_MiB).count());
}

TEST(BudgetTest, ShrinkBelowWhatLeasesHoldIsRefused) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 12 * kPage);
  const auto lease = runtime.Acquire({.tensor = tensor, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  EXPECT_THAT(
      runtime->SetBudget(kHbm0, Bytes(10 * kPage)),
      IsStatus(absl::StatusCode::kResourceExhausted, "the budget of hbm0 cannot be 40 KiB"));
  EXPECT_EQ(runtime->GetStats().tiers.at("hbm").budget_bytes, 16 * kPage);
}

/// Threads go on writing and reading while the budgets go up and down.
TEST(BudgetTest, BudgetsChangeUnderLoad) {
  RuntimeFixture runtime;
  runtime.options.dram_bytes = 4_MiB;
  runtime.options.hbm_bytes = 4_MiB;
  runtime.options.nvme_bytes = 32_MiB;
  runtime.options.page_bytes = 64_KiB;
  runtime.Start();
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const std::uint64_t bytes = (6_MiB).count();
      const TensorId tensor = runtime.Make("t" + std::to_string(i), bytes);
      const auto pattern = Pattern(i, bytes);
      runtime.Write(tensor, pattern);
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_EQ(runtime.Read(tensor, pass == 0 ? kHbm0 : kDram0), pattern);
      }
      stop = true;
    });
  }
  std::mt19937_64 random(11);
  int changes = 0;
  while (!stop) {
    const TierId tier = random() % 2 == 0 ? kHbm0 : kDram0;
    const Bytes budget = 64_KiB * (8 + random() % 57);
    const absl::Status changed = runtime->SetBudget(tier, budget);
    ASSERT_TRUE(changed.ok() || changed.code() == absl::StatusCode::kResourceExhausted) << changed;
    if (!changed.ok()) continue;
    ++changes;
    const TierStats stats = runtime->GetStats().tiers.at(std::string(ToString(tier.kind)));
    EXPECT_EQ(stats.budget_bytes, budget.count());
    EXPECT_LE(stats.used_bytes, budget.count());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(changes, 2);
}

TEST(BudgetTest, ImpossibleOptionsNameTheOption) {
  const auto refusal = [](auto change) {
    RuntimeFixture fixture;
    change(fixture.options);
    return Runtime::Create(fixture.options).status();
  };
  EXPECT_THAT(refusal([](RuntimeOptions& o) { o.dram_bytes = Bytes(4 * kPage); }),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "tiers.dram.bytes is 16 KiB; at least 20 KiB (5 pages) are needed"));
  EXPECT_THAT(refusal([](RuntimeOptions& o) { o.page_bytes = Bytes(5000); }),
              IsStatus(absl::StatusCode::kInvalidArgument, "page_bytes"));
  EXPECT_THAT(refusal([](RuntimeOptions& o) { o.policy = "filo"; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "did you mean \"fifo\"?"));
  EXPECT_THAT(refusal([](RuntimeOptions& o) {
                o.share = {2, 2};
              }),
              IsStatus(absl::StatusCode::kInvalidArgument, "share is 2 of 2"));
  EXPECT_THAT(refusal([](RuntimeOptions& o) { o.worker_threads = 0; }),
              IsStatus(absl::StatusCode::kInvalidArgument, "worker_threads"));
  for (const std::uint32_t depth : {0u, 1025u}) {
    EXPECT_THAT(refusal([&](RuntimeOptions& o) { o.io.queue_depth = depth; }),
                IsStatus(absl::StatusCode::kInvalidArgument, "allowed are 1 to 1024"));
  }
  EXPECT_THAT(refusal([](RuntimeOptions& o) {
                o.page_bytes = 2_MiB;
                o.hbm_bytes = 64_MiB;
                o.dram_bytes = Bytes(std::uint64_t{1} << 50);
              }),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(refusal([](RuntimeOptions& o) { o.io.directory += "/missing"; }),
              HasCode(absl::StatusCode::kNotFound));
}

TEST(BudgetTest, RequestsThatMakeNoSenseNameTheTensor) {
  RuntimeFixture runtime;
  runtime.Start();
  const std::vector<TensorSpec> specs = {ByteTensor("a", 100), ByteTensor("b", 100)};
  const auto tensors = runtime->CreateTensors(specs);
  ASSERT_THAT(tensors, IsOk());
  const auto status = [&](const std::vector<Access>& accesses) {
    Op op = runtime->BeginOp({.name = "bad"});
    return op.AcquireAll(accesses).Take().status();
  };
  const TensorId a = (*tensors)[0];
  const TensorId b = (*tensors)[1];
  EXPECT_THAT(
      status({{.tensor = a, .tier = kHbm0}, {.tensor = b, .tier = kDram0}}),
      IsStatus(absl::StatusCode::kInvalidArgument,
               "tensors 'a' and 'b' share a page, which cannot be leased in hbm0 and in dram0"));
  EXPECT_THAT(status({{.tensor = a, .range = {90, 11}}}),
              IsStatus(absl::StatusCode::kInvalidArgument, "tensor 'a' has 100 bytes"));
  EXPECT_THAT(status({{.tensor = a, .range = {0, 0}}}),
              HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(status({{.tensor = TensorId{999}}}),
              IsStatus(absl::StatusCode::kInvalidArgument, "no tensor with id 999"));
  EXPECT_THAT(status({{.tensor = a, .tier = kNvme0}}),
              IsStatus(absl::StatusCode::kInvalidArgument, "access to tensor 'a': nvme0"));
  EXPECT_THAT(status({}), IsOk());
  ASSERT_THAT(runtime->Free(a), IsOk());
  EXPECT_THAT(status({{.tensor = a}}), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST(BudgetTest, RatesAndTimesThatNoClockCanCountAreRefused) {
  RuntimeFixture runtime;
  runtime.Start();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double rate : {-1.0, nan, infinite, 1e-300}) {
    EXPECT_THAT(runtime->SetEmulatedRates(rate, 0),
                IsStatus(absl::StatusCode::kInvalidArgument, "\"in_bytes_per_second\" is"));
    EXPECT_THAT(runtime->SetEmulatedRates(0, rate),
                IsStatus(absl::StatusCode::kInvalidArgument, "\"out_bytes_per_second\" is"));
  }
  EXPECT_THAT(runtime->SetEmulatedRates(0, 1e9), IsOk());
  runtime.Stop();
  for (double* seconds :
       {&runtime.options.stall_seconds, &runtime.options.emulated.latency_seconds}) {
    const double before = std::exchange(*seconds, 1e18);
    EXPECT_THAT(Runtime::Create(runtime.options),
                IsStatus(absl::StatusCode::kInvalidArgument, "is 1e+18; allowed are 0 to 1000000"));
    *seconds = before;
  }
}

TEST(BudgetTest, TensorsThatMayNotGoDownStayUp) {
  RuntimeFixture runtime;
  runtime.Start();
  TensorSpec spec = ByteTensor("pinned", 8 * kPage);
  spec.lowest = TierKind::kDram;
  const auto tensor = runtime->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  const auto pattern = Pattern(4, 8 * kPage);
  runtime.Write(*tensor, pattern);
  const TensorId filler = runtime.Make("filler", 100 * kPage);
  runtime.Write(filler, Pattern(5, 100 * kPage));
  const std::uint64_t before = runtime->GetStats().links.at("dram-nvme").in.bytes;
  EXPECT_EQ(runtime.Read(*tensor), pattern);
  EXPECT_EQ(runtime->GetStats().links.at("dram-nvme").in.bytes, before);
  spec.lowest = TierKind::kHbm;
  const auto top = runtime->CreateTensor(spec);
  ASSERT_THAT(top, IsOk());
  EXPECT_THAT(runtime.Acquire({.tensor = *top, .tier = kDram0}),
              IsStatus(absl::StatusCode::kInvalidArgument, "may not reach dram0"));
  spec.shape = {static_cast<std::int64_t>(30 * kPage)};
  EXPECT_THAT(runtime->CreateTensor(spec), HasCode(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace sluice
