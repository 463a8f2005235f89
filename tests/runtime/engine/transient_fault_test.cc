// Errors that pass: they fail the requests that wait, and nothing is lost or closed for good.
#include <gtest/gtest.h>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

constexpr std::uint64_t kPage = RuntimeFixture::kPage;

class TransientFaultTest : public ::testing::Test {
 protected:
  TransientFaultTest() {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
  }

  /// Fills hbm and dram with something else, so that what was there sits in nvme alone.
  void PushOut() {
    const TensorId filler = runtime_.Make("filler", 64 * kPage);
    runtime_.Write(filler, Pattern(99, 64 * kPage));
    ASSERT_THAT(runtime_->Free(filler), IsOk());
  }

  StoreFaults faults_;
  RuntimeFixture runtime_;
};

TEST_F(TransientFaultTest, AReadThatFailsForNowLosesNothing) {
  const TensorId tensor = runtime_.Make("t", 4 * kPage);
  runtime_.Write(tensor, Pattern(1, 4 * kPage));
  PushOut();
  const Access second{.tensor = tensor, .range = {kPage + 8, 100}, .tier = kDram0};
  for (const absl::Status& fault :
       {absl::UnavailableError("slot 7: EAGAIN"), absl::InternalError("slot 7: EBADF")}) {
    faults_.FailReads(fault);
    EXPECT_THAT(runtime_.Acquire(second),
                IsStatus(absl::StatusCode::kUnavailable,
                         "tensor 't', bytes 4104 to 4203 cannot be brought to dram0 now: slot 7"));
    faults_.FailReads(absl::OkStatus());
    EXPECT_THAT(runtime_.Acquire(second), IsOk());
    PushOut();
  }
  EXPECT_EQ(runtime_.Read(tensor), Pattern(1, 4 * kPage));
  EXPECT_EQ(runtime_->GetStats().pages_lost, 0u);
  EXPECT_TRUE(runtime_.listener.lost().empty());
  EXPECT_TRUE(runtime_.listener.fenced().empty());
}

}  // namespace
}  // namespace sluice
