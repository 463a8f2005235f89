#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

TEST(LifetimeTest, EverythingIsHarmlessAfterTheRuntime) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 2 * kPage);
  Op op = runtime->BeginOp({.name = "late"});
  Op unused = runtime->BeginOp({.name = "unused"});
  const Access access{.tensor = tensor, .tier = kHbm0};
  Ticket taken = op.AcquireAll({&access, 1});
  auto leases = taken.Take();
  ASSERT_THAT(leases, IsOk());
  auto reservation = runtime->Reserve(kDram0, Bytes(kPage));
  ASSERT_THAT(reservation, IsOk());
  StreamRef stream = runtime->CreateStream().value();
  Ticket granted = op.AcquireAll({&access, 1});
  ASSERT_THAT(granted.Wait(), IsOk());
  runtime.Stop();
  EXPECT_THAT(granted.Take(), HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(op.Acquire(access), HasCode(absl::StatusCode::kCancelled));
  EXPECT_EQ((*leases)[0].tensor(), tensor);
  stream.Enqueue([] { FAIL() << "nothing runs any more"; });
  EXPECT_THAT(stream.ReleaseAfter(std::move((*leases)[0])), IsOk());
  stream.Synchronize();
  EXPECT_THAT(unused.EndAfter(stream), IsOk());
}

TEST(LifetimeTest, TheTraceSinkIsNotCalledAfterTheRuntime) {
  std::atomic<bool> gone = false;
  std::atomic<int> late = 0;
  RuntimeFixture runtime;
  runtime.options.trace = [&](const TraceSpan& span) {
    if (span.track != "stall") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (gone) ++late;
  };
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  auto held = runtime.Acquire(write);
  ASSERT_THAT(held, IsOk());
  Op op = runtime->BeginOp({.name = "waits", .lane = "another"});
  Ticket ticket = op.AcquireAll({&write, 1});
  std::latch begun(1);
  std::thread waiter([&] {
    begun.count_down();
    EXPECT_THAT(ticket.Wait(), HasCode(absl::StatusCode::kCancelled));
  });
  begun.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  runtime.Stop();
  gone = true;
  waiter.join();
  EXPECT_EQ(late, 0);
}

TEST(LifetimeTest, AStreamMayBeLetGoByItsOwnWork) {
  for (const bool with_device : {true, false}) {
    RuntimeFixture runtime;
    if (!with_device) runtime.options.hbm_bytes = Bytes();
    runtime.Start();
    std::latch held(1);
    std::latch let_go(1);
    std::atomic<int> ran = 0;
    auto stream = std::make_unique<StreamRef>(runtime->CreateStream().value());
    stream->Enqueue([&, own = *stream]() mutable {
      held.wait();
      own = StreamRef();  // the last one
      let_go.count_down();
      ++ran;
    });
    stream->Enqueue([&ran] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++ran;
    });
    stream.reset();
    held.count_down();
    let_go.wait();
    runtime.Stop();
    EXPECT_EQ(ran, 2) << "the runtime waits for what was enqueued";
  }
}

TEST(LifetimeDeathTest, AStreamsOwnWorkCannotWaitForTheStream) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The directory, and all that the dying process leaves in it, goes at the end.
  const testing::TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  EXPECT_DEATH(
      {
        RuntimeFixture runtime;
        runtime.options.hbm_bytes = Bytes();
        runtime.Start();
        StreamRef own = runtime->CreateStream().value();
        own.Enqueue([&own] { own.Synchronize(); });
        own.Synchronize();
      },
      "a stream's own work does not wait for the stream");
}

TEST(LifetimeTest, LeakedLeasesAreNamedOnce) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId leaked = runtime.Make("leaked", kPage);
  const TensorId kept = runtime.Make("kept", kPage);
  Op op = runtime->BeginOp({.name = "careless"});
  auto leases = op.AcquireAll({{.tensor = leaked}, {.tensor = kept}}).Take();
  ASSERT_THAT(leases, IsOk());
  (*leases)[1].Release();
  runtime.Stop();
  EXPECT_EQ(runtime.log.Count("a lease of tensor 'leaked' taken by op 'careless' outlives"), 1);
  EXPECT_EQ(runtime.log.Count("outlives"), 1) << runtime.log.All();
}

TEST(LifetimeTest, NothingIsNamedWhenAllWasGivenBack) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  Op op = runtime->BeginOp({.name = "tidy"});
  const Access access{.tensor = tensor};
  { const auto lease = op.Acquire(access); }
  { const Ticket dropped = op.AcquireAll({&access, 1}); }
  runtime.Stop();
  EXPECT_EQ(runtime.log.Count("outlives"), 0) << runtime.log.All();
}

TEST(LifetimeTest, ShutdownWaitsForTransfersInFlight) {
  StoreFaults faults;
  RuntimeFixture runtime;
  runtime.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  const TensorId tensor = runtime.Make("t", 80 * kPage);
  runtime.Write(tensor, Pattern(1, 80 * kPage));
  faults.Hold();
  Op op = runtime->BeginOp({.name = "reader"});
  const Access access{.tensor = tensor, .range = {0, 8 * kPage}, .tier = kHbm0};
  Ticket ticket = op.AcquireAll({&access, 1});
  faults.WaitForHeld(1);
  std::atomic<bool> released = false;
  std::thread waiter([&] {
    EXPECT_THAT(ticket.Take(), IsStatus(absl::StatusCode::kCancelled, "shut down"));
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // a shutdown that does not wait ends
    released = true;
    faults.Release();
  });
  runtime.Stop();
  EXPECT_TRUE(released) << "the shutdown waits for the transfer";
  waiter.join();
}

TEST(LifetimeTest, CancelGivesBackWhatWasGranted) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  Op op = runtime->BeginOp({.name = "op"});
  Ticket granted = op.AcquireAll({&write, 1});
  ASSERT_THAT(granted.Wait(), IsOk());
  Op second = runtime->BeginOp({.name = "second", .lane = "second"});
  Ticket waiting = second.AcquireAll({&write, 1});
  Op third = runtime->BeginOp({.name = "third", .lane = "third"});
  Ticket behind = third.AcquireAll({&write, 1});
  EXPECT_FALSE(waiting.Ready());
  waiting.Cancel();
  EXPECT_TRUE(waiting.Ready());
  EXPECT_THAT(waiting.Take(), HasCode(absl::StatusCode::kCancelled));
  granted.Cancel();
  EXPECT_THAT(granted.Take(), HasCode(absl::StatusCode::kCancelled));
  EXPECT_THAT(behind.Take(), IsOk());
}

TEST(LifetimeTest, WaitReturnsAtItsDeadlineAndTheTicketLivesOn) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  Op op = runtime->BeginOp({.name = "op"});
  Op other = runtime->BeginOp({.name = "other", .lane = "other"});
  auto held = op.Acquire(write);
  ASSERT_THAT(held, IsOk());
  Ticket waiting = other.AcquireAll({&write, 1});
  EXPECT_THAT(waiting.Wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(2)),
              HasCode(absl::StatusCode::kDeadlineExceeded));
  held->Release();
  EXPECT_THAT(waiting.Wait(), IsOk());
  EXPECT_THAT(waiting.Take(), IsOk());
  EXPECT_THAT(waiting.Take(), HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_GT(runtime->GetStats().stall_seconds, 0.001);
}

TEST(LifetimeTest, TicketsBeyondTheQueueAreUnreadyAndCancelled) {
  RuntimeFixture runtime;
  runtime.options.request_queue_capacity = 1;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  Op op = runtime->BeginOp({.name = "op"});
  auto held = op.Acquire(write);
  ASSERT_THAT(held, IsOk());
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2000; ++i) {
    Op other = runtime->BeginOp({.name = "op" + std::to_string(i)});
    tickets.push_back(other.AcquireAll({&write, 1}));
    EXPECT_FALSE(tickets.back().Ready());
  }
  for (std::size_t i = 0; i < tickets.size(); i += 2) tickets[i].Cancel();
  held->Release();
  for (std::size_t i = 1; i < tickets.size(); i += 2) ASSERT_THAT(tickets[i].Take(), IsOk());
}

TEST(LifetimeTest, LeasesMoveBetweenThreads) {
  RuntimeFixture runtime;
  runtime.Start();
  const TensorId tensor = runtime.Make("t", kPage);
  const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kDram0};
  for (int i = 0; i < 20; ++i) {
    auto lease = runtime.Acquire(write);
    ASSERT_THAT(lease, IsOk());
    std::thread([moved = std::move(*lease)]() mutable { moved.Release(); }).join();
  }
}

TEST(LifetimeTest, StreamsRunInOrderAndReleaseAfterTheirWork) {
  for (const bool with_device : {true, false}) {
    RuntimeFixture runtime;
    if (!with_device) runtime.options.hbm_bytes = Bytes();
    runtime.Start();
    const TierId tier = with_device ? kHbm0 : kDram0;
    const TensorId tensor = runtime.Make("t", kPage);
    StreamRef stream = runtime->CreateStream().value();
    Op op = runtime->BeginOp({.name = "step"});
    const Access write{.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = tier};
    Ticket ticket = op.AcquireAll({&write, 1});
    ASSERT_THAT(stream.WaitOn(ticket), IsOk());
    auto leases = ticket.Take();
    ASSERT_THAT(leases, IsOk());
    std::byte* bytes = (*leases)[0].Contiguous().data();
    for (int i = 0; i < 3; ++i) {
      stream.Enqueue([bytes, i] {
        if (bytes[0] == static_cast<std::byte>(i)) bytes[0] = static_cast<std::byte>(i + 1);
      });
    }
    ASSERT_THAT(stream.ReleaseAfter(std::move((*leases)[0])), IsOk());
    ASSERT_THAT(op.EndAfter(stream), IsOk());
    const auto read = runtime.Acquire({.tensor = tensor, .tier = tier});  // waits for the release
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->Contiguous()[0], std::byte{3});
    stream.Synchronize();
  }
}

}  // namespace
}  // namespace sluice
