#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

/// Waits of a thread while the test holds reads and writes back.
class WaitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime_.options.hbm_bytes = Bytes();
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }
  void TearDown() override { faults_.Release(); }

  /// Makes a tensor with `more` pages more than dram has, and writes it.
  TensorId Fill(std::uint64_t more) {
    const std::uint64_t bytes = (RuntimeFixture::kDramPages + more) * kPage;
    const TensorId tensor = runtime_.Make("t", bytes);
    runtime_.Write(tensor, Pattern(1, bytes));
    return tensor;
  }
  Ticket Ask(TensorId tensor, std::uint64_t page, AccessMode mode) {
    // Resident pages are granted at once as spans. A mapping would take its time.
    const Access access{.tensor = tensor,
                        .range = {page * kPage, kPage},
                        .mode = mode,
                        .tier = kDram0,
                        .contiguous = false};
    Ticket ticket = op_.AcquireAll({&access, 1});
    // The core knows the ticket by then, and has said what it waits for.
    runtime_->GetStats();
    runtime_->GetStats();
    return ticket;
  }
  /// Waits in vain until that has taken 5 ms.
  static void WaitForLong(Ticket& ticket) {
    while (ticket.waited().seconds() < 0.005) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
      ASSERT_THAT(ticket.Wait(deadline), HasCode(absl::StatusCode::kDeadlineExceeded));
    }
  }
  /// Checks that the Runtime's times grew by those of the ticket.
  void ExpectCounted(const Ticket& ticket, const Stats& before) {
    const Stats stats = runtime_->GetStats();
    const WaitTimes waited = ticket.waited();
    EXPECT_NEAR(stats.stall_read_seconds - before.stall_read_seconds, waited.read_seconds, 1e-9);
    EXPECT_NEAR(stats.stall_write_seconds - before.stall_write_seconds, waited.write_seconds, 1e-9);
    EXPECT_DOUBLE_EQ(stats.stall_read_seconds + stats.stall_write_seconds, stats.stall_seconds);
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
  Op op_;
};

TEST_F(WaitsTest, AReadThatTakesLong) {
  // Page 0 is the oldest of those that leave.
  const TensorId tensor = Fill(16);
  ASSERT_THAT(runtime_->Discard(tensor, {34 * kPage, 14 * kPage}), IsOk());
  op_ = runtime_->BeginOp({.name = "asks"});
  faults_.Hold();
  const Stats before = runtime_->GetStats();
  Ticket ticket = Ask(tensor, 0, AccessMode::kRead);
  WaitForLong(ticket);
  EXPECT_GE(ticket.waited().read_seconds, 0.005);
  EXPECT_EQ(ticket.waited().write_seconds, 0);
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  ExpectCounted(ticket, before);
}

TEST_F(WaitsTest, AWriteThatTakesLong) {
  faults_.Hold();
  const TensorId tensor = Fill(0);
  faults_.WaitForHeld(1);
  op_ = runtime_->BeginOp({.name = "asks"});
  const Stats before = runtime_->GetStats();
  Ticket ticket = Ask(tensor, faults_.written().front().page, AccessMode::kReadWrite);
  WaitForLong(ticket);
  EXPECT_GE(ticket.waited().write_seconds, 0.005);
  EXPECT_EQ(ticket.waited().read_seconds, 0);
  faults_.Release();
  EXPECT_THAT(ticket.Take(), IsOk());
  ExpectCounted(ticket, before);
}

TEST_F(WaitsTest, NobodyWaitsForWhatIsThere) {
  const TensorId tensor = Fill(0);
  op_ = runtime_->BeginOp({.name = "asks"});
  Ticket ticket = Ask(tensor, 31, AccessMode::kRead);
  ASSERT_TRUE(ticket.Ready());
  EXPECT_THAT(ticket.Take(), IsOk());
  EXPECT_EQ(ticket.waited().seconds(), 0);
  EXPECT_EQ(Ticket().waited().seconds(), 0);
}

}  // namespace
}  // namespace sluice
