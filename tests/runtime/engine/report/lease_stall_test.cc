// An op that waits for what a lease holds: the lease is named, with its age.
#include <gtest/gtest.h>

#include <thread>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::RuntimeFixture;
using testing::StoreFaults;

class LeaseStallTest : public ::testing::Test {
 protected:
  LeaseStallTest() {
    runtime_.options.stall_seconds = 0.02;
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
  }

  /// The first event, for which it waits.
  LeaseStalledEvent Stall() {
    while (runtime_.listener.stalled_leases().empty()) std::this_thread::yield();
    return runtime_.listener.stalled_leases()[0];
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(LeaseStallTest, ALeaseOfTheSameBytesIsNamed) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("weights", 4 * kPage);
  Op holder = runtime_->BeginOp({.name = "holder", .lane = "a"});
  auto lease = holder.Acquire({.tensor = tensor, .range = {kPage, kPage}, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  Op op = runtime_->BeginOp({.name = "update", .lane = "b"});
  Ticket ticket = op.AcquireAll(
      {{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0, .contiguous = false}});
  const LeaseStalledEvent event = Stall();
  EXPECT_EQ(event.op, "update");
  EXPECT_EQ(event.tensor, "weights");
  EXPECT_EQ(event.tier, kDram0);
  EXPECT_EQ(event.held_tensor, "weights");
  EXPECT_EQ(event.held_by, "holder");
  EXPECT_GT(event.seconds, 0.02);
  EXPECT_GE(event.held_seconds, event.seconds);
  EXPECT_EQ(runtime_.log.Count("op 'update' has waited "), 1);
  EXPECT_EQ(runtime_.log.Count("that op 'holder' took "), 1);
  EXPECT_EQ(runtime_.log.Count("excludes it; release it before anything waits for op 'update'"), 1);
  lease->Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  EXPECT_EQ(runtime_.listener.stalled_leases().size(), 1u) << "each op is reported once";
}

TEST_F(LeaseStallTest, TheOldestOfSeveralIsNamed) {
  runtime_.Start();
  const TensorId tensor = runtime_.Make("t", kPage);
  Op first = runtime_->BeginOp({.name = "first", .lane = "a"});
  Op second = runtime_->BeginOp({.name = "second", .lane = "b"});
  auto old = first.Acquire({.tensor = tensor, .tier = kDram0});
  auto young = second.Acquire({.tensor = tensor, .tier = kDram0});
  Op op = runtime_->BeginOp({.name = "op", .lane = "c"});
  Ticket ticket =
      op.AcquireAll({{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0}});
  EXPECT_EQ(Stall().held_by, "first");
  old->Release();
  young->Release();
  EXPECT_THAT(ticket.Take(), IsOk());
}

TEST_F(LeaseStallTest, ALeaseThatHoldsTheFramesIsNamed) {
  runtime_.Start();
  const TensorId held = runtime_.Make("held", 14 * kPage);
  const TensorId wanted = runtime_.Make("wanted", 8 * kPage);
  Op holder = runtime_->BeginOp({.name = "holder", .lane = "a"});
  auto lease = holder.Acquire({.tensor = held, .mode = AccessMode::kOverwrite, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  Op op = runtime_->BeginOp({.name = "op", .lane = "b"});
  Ticket ticket =
      op.AcquireAll({{.tensor = wanted, .mode = AccessMode::kOverwrite, .tier = kHbm0}});
  const LeaseStalledEvent event = Stall();
  EXPECT_EQ(event.tensor, "wanted");
  EXPECT_EQ(event.held_tensor, "held");
  EXPECT_EQ(runtime_.log.Count("holds frames that it needs"), 1);
  lease->Release();
  EXPECT_THAT(ticket.Take(), IsOk());
}

TEST_F(LeaseStallTest, AWaitForADiskBlamesNoLease) {
  runtime_.Start();
  const TensorId slow = runtime_.Make("slow", 100 * kPage);
  const TensorId held = runtime_.Make("held", kPage);
  runtime_.Write(slow, testing::Pattern(1, 100 * kPage));
  Op holder = runtime_->BeginOp({.name = "holder", .lane = "a"});
  auto lease = holder.Acquire({.tensor = held, .mode = AccessMode::kOverwrite, .tier = kDram0});
  ASSERT_THAT(lease, IsOk());
  faults_.Hold();
  Op op = runtime_->BeginOp({.name = "reader", .lane = "b"});
  Ticket ticket = op.AcquireAll({{.tensor = slow, .range = {0, kPage}, .tier = kDram0}});
  while (runtime_.listener.stalled().empty()) std::this_thread::yield();
  EXPECT_TRUE(runtime_.listener.stalled_leases().empty());
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
}

}  // namespace
}  // namespace sluice
