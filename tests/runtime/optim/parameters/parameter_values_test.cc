// States and masters as values: read, written into another optimizer, which then goes on alike.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "sluice/optimizer.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;

constexpr auto kInvalidState = absl::StatusCode::kInvalidArgument;

class OptimizerStatesTest : public ::testing::Test {
 protected:
  OptimizerStatesTest() { runtime_.Start(); }

  /// Parameters' states and counts of steps, from one optimizer to the other.
  void CopyStates(PagedModel& from, PagedModel& to) {
    for (std::size_t i = 0; i < from.parameters(); ++i) {
      const ParameterState state = from.optimizer().State(from.parameter(i)).value();
      std::vector<float> values(from.run(i).count());
      for (std::size_t s = 0; s < state.states.size(); ++s) {
        ASSERT_THAT(from.optimizer().ReadState(from.parameter(i), s, values), IsOk());
        for (std::size_t e = 0; e < values.size(); ++e) {
          ASSERT_EQ(values[e], from.run(i).state(static_cast<int>(s), e)) << s << " " << e;
        }
        ASSERT_THAT(to.optimizer().WriteState(to.parameter(i), s, values), IsOk());
      }
      ASSERT_THAT(to.optimizer().SetStepsOf(to.parameter(i), state.step), IsOk());
    }
  }

  RuntimeFixture runtime_;
};

TEST_F(OptimizerStatesTest, WrittenStatesAreThoseThatWereRead) {
  for (const KernelSpec& spec : AllSpecs()) {
    if (spec.gradient != GradientType::kFp32 || spec.copy != CopyType::kNone) continue;
    SCOPED_TRACE(NameOf(spec));
    const PagedModel::Options options{
        .spec = spec, .groups = {{5000, 10}, {700}}, .parameters = Storage::kMemory};
    PagedModel old(runtime_, options);
    PagedModel fresh(runtime_, options);
    for (int step = 1; step <= 5; ++step) {
      old.SetGradients(static_cast<std::uint64_t>(step));
      ASSERT_THAT(old.Step(), IsOk());
      old.ReferenceStep(step);
    }
    CopyStates(old, fresh);
    for (std::size_t i = 0; i < old.parameters(); ++i) {
      std::ranges::copy(old.memory(i), fresh.memory(i).begin());
    }
    EXPECT_EQ(fresh.Paged(), old.Paged());
    old.SetGradients(6);
    fresh.SetGradients(6);
    ASSERT_THAT(old.Step(), IsOk());
    ASSERT_THAT(fresh.Step(), IsOk());
    EXPECT_EQ(fresh.optimizer().step(), 1);
    EXPECT_EQ(fresh.optimizer().State(fresh.parameter(0))->step, 6);
    EXPECT_EQ(fresh.Paged(), old.Paged());
  }
}

TEST_F(OptimizerStatesTest, ASaveHasTheStepsOfStatesFromElsewhere) {
  const PagedModel::Options options{.groups = {{5000, 10}}, .parameters = Storage::kMemory};
  PagedModel old(runtime_, options);
  PagedModel fresh(runtime_, options);
  for (int step = 1; step <= 5; ++step) {
    ASSERT_THAT(old.Step(), IsOk());
    old.ReferenceStep(step);
  }
  CopyStates(old, fresh);
  ASSERT_THAT(fresh.Step(), IsOk());
  const testing::TempDirectory directory;
  ASSERT_THAT(fresh.optimizer().Save(directory.path()), IsOk());
  PagedModel loaded(runtime_, options);
  ASSERT_THAT(loaded.optimizer().Load(directory.path()), IsOk());
  for (PagedModel* model : {&fresh, &loaded}) {
    EXPECT_EQ(model->optimizer().State(model->parameter(0))->step, 6);
    ASSERT_THAT(model->Step(), IsOk());
  }
  EXPECT_EQ(loaded.Paged(), fresh.Paged());
}

TEST_F(OptimizerStatesTest, AMasterIsReadAndWritten) {
  PagedModel model(
      runtime_,
      {.spec = {.copy = CopyType::kFp16}, .groups = {{5000}}, .parameters = Storage::kMaster});
  ASSERT_THAT(model.Step(), IsOk());
  model.ReferenceStep(1);
  std::vector<float> master(5000);
  ASSERT_THAT(model.optimizer().ReadMaster(model.parameter(0), master), IsOk());
  for (std::size_t i = 0; i < master.size(); ++i) ASSERT_EQ(master[i], model.run(0).parameter(i));
  master[4999] += 1e-6f;
  ASSERT_THAT(model.optimizer().WriteMaster(model.parameter(0), master), IsOk());
  model.run(0).SetParameter(4999, master[4999]);
  EXPECT_EQ(model.Paged(), model.Reference());
}

TEST_F(OptimizerStatesTest, StatesThatDoNotExistAreRefusedByName) {
  PagedModel model(runtime_, {.groups = {{100}}});
  OffloadedOptimizer& optimizer = model.optimizer();
  const TensorId p0 = model.parameter(0);
  std::vector<float> values(100);
  EXPECT_THAT(optimizer.ReadState(p0, 2, values),
              IsStatus(kInvalidState, "'p0' has 2 states, there is no 2"));
  EXPECT_THAT(optimizer.WriteState(p0, 0, std::span(values).first(99)),
              IsStatus(kInvalidState, "'p0' has 100 elements, not 99"));
  EXPECT_THAT(optimizer.ReadMaster(p0, values), IsStatus(kInvalidState, "'p0' has no master"));
  EXPECT_THAT(optimizer.RefreshMaster(p0), IsStatus(kInvalidState, "'p0' has no master"));
  EXPECT_THAT(optimizer.SetStepsOf(p0, -1), IsStatus(kInvalidState, "'p0': -1 steps"));
  EXPECT_THAT(optimizer.ReadState(TensorId{1 << 20}, 0, values),
              IsStatus(absl::StatusCode::kNotFound, ""));
  ASSERT_THAT(optimizer.GradientReady(model.group(0)), IsOk());
  EXPECT_THAT(optimizer.ReadState(p0, 0, values),
              IsStatus(absl::StatusCode::kFailedPrecondition, "a step is under way"));
}

}  // namespace
}  // namespace sluice::optim
