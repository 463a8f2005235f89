#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/optimizer.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::RunInChild;
using testing::RuntimeFixture;
using testing::StoreFaults;

/// A child that hangs is killed by SIGALRM, and RunInChild says so.
constexpr unsigned kHangSeconds = 60;

/// A parameter that is larger than dram, and its optimizer, on a store that can be held.
class OptimizerForkTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCount = 40 * kPage / sizeof(float);

  void SetUp() override {
    runtime_.hooks.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
    runtime_.Start();
    ASSERT_FALSE(HasFatalFailure());
    parameter_ = runtime_
                     ->CreateTensor({.name = "p",
                                     .shape = {static_cast<std::int64_t>(kCount)},
                                     .dtype = DType::kF32,
                                     .kind = TensorKind::kParameter})
                     .value();
    optimizer_ = OffloadedOptimizer::Create(*runtime_, {.threads = 2}).value();
    group_ = optimizer_->AddGroup({.name = "g", .parameters = {parameter_}}).value();
    ASSERT_THAT(optimizer_->BindGradient(parameter_, {.bytes = gradient_}), IsOk());
  }
  void TearDown() override { faults_.Release(); }

  StepHandle BeginStep() {
    EXPECT_THAT(optimizer_->GradientReady(group_), IsOk());
    return optimizer_->Step().value();
  }

  /// Calls of `optimizer_` and `handle` that a child finds wrong. The child destroys both at the
  /// end.
  std::string MisuseInChild(std::optional<StepHandle>& handle) {
    alarm(kHangSeconds);
    std::string wrong;
    const auto refused = [&](const absl::Status& status, const std::string& call) {
      if (!absl::IsFailedPrecondition(status)) wrong += call + ": " + status.ToString() + "; ";
    };
    refused(optimizer_->AddGroup({.name = "h"}).status(), "AddGroup");
    refused(optimizer_->SetRates(group_, {}), "SetRates");
    refused(optimizer_->Rates(group_).status(), "Rates");
    refused(optimizer_->BindGradient(parameter_, {.bytes = gradient_}), "BindGradient");
    refused(optimizer_->BindCopy(parameter_, {}), "BindCopy");
    refused(optimizer_->AddGradient(group_), "AddGradient");
    refused(optimizer_->ResetGradient(group_), "ResetGradient");
    refused(optimizer_->GradientReady(group_), "GradientReady");
    refused(optimizer_->Step().status(), "Step");
    refused(optimizer_->WaitFor(group_), "WaitFor");
    refused(optimizer_->State(parameter_).status(), "State");
    refused(optimizer_->Save("/"), "Save");
    refused(optimizer_->Load("/"), "Load");
    if (optimizer_->step() != 0) wrong += "step; ";
    if (!handle->Ready() || !handle->Ready(group_)) wrong += "Ready; ";
    refused(handle->Wait().status(), "Wait");
    refused(handle->WaitFor(group_), "WaitFor of the handle");
    handle.reset();
    optimizer_.reset();
    runtime_.Stop();
    return wrong;
  }

  const std::vector<std::byte> gradient_ = std::vector<std::byte>(kCount * sizeof(float));
  StoreFaults faults_;
  RuntimeFixture runtime_;
  TensorId parameter_;
  std::unique_ptr<OffloadedOptimizer> optimizer_;
  GroupId group_;
};

TEST_F(OptimizerForkTest, AChildIsRefusedEverythingAndDestroysNothing) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  std::optional<StepHandle> handle = BeginStep();
  ASSERT_THAT(handle->Wait(), IsOk());
  EXPECT_EQ(RunInChild([&] { return MisuseInChild(handle); }), "");
  EXPECT_EQ(optimizer_->step(), 1);
  EXPECT_THAT(BeginStep().Wait(), IsOk());
}

/// The optimizer's thread waits for pages, and one of the parent for the step, when it forks.
TEST_F(OptimizerForkTest, AChildInTheMiddleOfAStepNeitherHangsNorHarmsIt) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  ASSERT_THAT(BeginStep().Wait(), IsOk());
  faults_.Hold();
  std::optional<StepHandle> handle = BeginStep();
  faults_.WaitForHeld(1);
  absl::StatusOr<OptimizerStep> step;
  std::thread waiter([&, waiting = *handle]() mutable { step = waiting.Wait(); });
  for (int child = 0; child < 5; ++child) {
    EXPECT_EQ(RunInChild([&] { return MisuseInChild(handle); }), "") << child;
  }
  faults_.Release();
  waiter.join();
  ASSERT_THAT(step, IsOk());
  EXPECT_EQ(step->step, 2);
  EXPECT_EQ(optimizer_->step(), 2);
}

}  // namespace
}  // namespace sluice
