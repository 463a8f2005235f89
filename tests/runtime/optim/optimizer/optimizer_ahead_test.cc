// OffloadedOptimizer::Prefetch: pages that a step uses first come in before it.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;

/// Pages of four parts: of the parameter and of two states each.
constexpr std::uint64_t kPagesAhead = 12;

class OptimizerAheadTest : public ::testing::Test {
 protected:
  OptimizerAheadTest() {
    runtime_.Start();
    model_ = std::make_unique<PagedModel>(runtime_,
                                          PagedModel::Options{.groups = {{8192}, {8192}, {8192}}});
    for (std::size_t i = 0; i < model_->groups(); ++i) groups_.push_back(model_->group(i));
  }

  std::uint64_t ReadPages() {
    return runtime_->GetStats().links["dram-nvme"].in.bytes / RuntimeFixture::kPage;
  }

  /// Leaves no page of the model in dram.
  void TakeDram() {
    for (const std::string name : {"first", "second"}) {
      const TensorId other =
          runtime_->CreateTensor({.name = name, .shape = {24 * RuntimeFixture::kPage / 4}}).value();
      Op op = runtime_->BeginOp({.name = name});
      ASSERT_THAT(op.Acquire({.tensor = other, .mode = AccessMode::kOverwrite, .tier = kDram0}),
                  IsOk());
    }
  }

  OffloadedOptimizer& optimizer() { return model_->optimizer(); }

  RuntimeFixture runtime_;
  std::unique_ptr<PagedModel> model_;
  std::vector<GroupId> groups_;
};

TEST_F(OptimizerAheadTest, PagesThatTheStepUsesFirstAreThere) {
  for (int step = 1; step <= 4; ++step) {
    ASSERT_THAT(model_->Step(), IsOk());
    model_->ReferenceStep(step);
    TakeDram();
    const std::uint64_t read = ReadPages();
    const std::uint64_t hit = runtime_->GetStats().prefetch.hit;
    const std::size_t first = optimizer().backwards() ? 2 : 0;
    const Bytes room((kPagesAhead + 2) * RuntimeFixture::kPage);  // no fifth part fits
    EXPECT_EQ(optimizer().Prefetch(groups_, room).value().count(),
              kPagesAhead * RuntimeFixture::kPage);
    while (ReadPages() < read + kPagesAhead) std::this_thread::yield();
    ASSERT_THAT(optimizer().GradientReady(groups_[first]), IsOk());
    ASSERT_THAT(optimizer().WaitFor(groups_[first]), IsOk());
    EXPECT_EQ(runtime_->GetStats().prefetch.hit - hit, kPagesAhead) << "step " << step + 1;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (i == first) continue;
      ASSERT_THAT(optimizer().GradientReady(groups_[i]), IsOk());
    }
    ASSERT_THAT(optimizer().Step().value().Wait(), IsOk());
    model_->ReferenceStep(++step);
  }
  EXPECT_EQ(model_->Paged(), model_->Reference());
}

TEST_F(OptimizerAheadTest, WithoutGroupsOrRoomForAPartNothingIsFetched) {
  ASSERT_THAT(model_->Step(), IsOk());
  TakeDram();
  const std::uint64_t issued = runtime_->GetStats().prefetch.issued;
  EXPECT_EQ(optimizer().Prefetch({}, Bytes(UINT64_MAX)).value().count(), 0u);
  EXPECT_EQ(optimizer().Prefetch(groups_, Bytes(2 * RuntimeFixture::kPage)).value().count(), 0u)
      << "a part has three";
  EXPECT_EQ(runtime_->GetStats().prefetch.issued, issued);
}

TEST_F(OptimizerAheadTest, PrefetchIsRefusedDuringAStep) {
  EXPECT_THAT(optimizer().Prefetch(std::vector<GroupId>{{7}}, Bytes(1)),
              HasCode(absl::StatusCode::kInvalidArgument));
  ASSERT_THAT(optimizer().GradientReady(groups_[0]), IsOk());
  EXPECT_THAT(optimizer().Prefetch(groups_, Bytes(1)),
              HasCode(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace sluice::optim
