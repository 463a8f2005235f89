// A process that SIGKILL ends while it updates, several parts to an op, and saves: one save is
// there whole, and whoever loads it goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/runtime/optim/batched_model.h"
#include "tests/support/child_process.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_directory.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::TempDirectory;

enum class Phase { kStep, kSave };

/// Moment of the kill: `transfers` page transfers after the second update, or the second save, has
/// begun. The process then stands still in the middle, or goes on meanwhile.
struct Moment {
  Phase phase;
  int transfers;
  bool stands_still;
};

/// Lets transfers pass one by one, and calls `begun` at the moment.
void AwaitMoment(testing::StoreFaults& faults,
                 const Moment& moment,
                 const std::function<void()>& begun) {
  faults.WaitForHeld(1);
  for (int i = 0; i < moment.transfers; ++i) {
    faults.Release();
    faults.Hold();
    faults.WaitForHeld(1);
  }
  begun();
  if (!moment.stands_still) faults.Release();
}

void TrainAndSaveForEver(const std::string& directory,
                         const KernelSpec& spec,
                         const Moment& moment,
                         const std::function<void()>& begun) {
  BatchedModel model({}, spec);
  std::thread waits;
  const auto enter = [&](Phase phase, std::int64_t step) {
    if (step != 2 || phase != moment.phase) return;
    model.faults.Hold();
    waits = std::thread([&] { AwaitMoment(model.faults, moment, begun); });
  };
  for (std::int64_t step = 1;; ++step) {
    model.SetGradients(step);
    enter(Phase::kStep, step);
    if (!model->Step().ok()) _exit(1);
    enter(Phase::kSave, step);
    if (!model.optimizer().Save(directory).ok()) _exit(1);
  }
}

/// Loads the save, trains on, and expects the bytes of an uninterrupted run.
void ExpectToGoOn(const std::string& directory, const KernelSpec& spec, const Moment& moment) {
  BatchedModel model({}, spec);
  ASSERT_THAT(model.optimizer().Load(directory), IsOk());
  const std::int64_t saved = model.optimizer().step();
  ASSERT_GT(saved, 0);
  if (moment.stands_still) {
    EXPECT_EQ(saved, 1) << "the kill strikes in the middle of the second save";
  }
  for (std::int64_t step = 1; step <= saved; ++step) {
    model.SetGradients(step);
    model.ReferenceStep(step);
  }
  EXPECT_EQ(model->Paged(), model->Reference()) << saved << " steps";
  for (std::int64_t step = saved + 1; step <= saved + 2; ++step) model.Train(step);
  EXPECT_EQ(model->Paged(), model->Reference());
}

class OptimizerKillTest : public ::testing::TestWithParam<StateType> {};

TEST_P(OptimizerKillTest, OneSaveIsThereWholeWheneverItComes) {
  SLUICE_SKIP_FORK_UNDER_SANITIZERS();
  // The directory, and all that killed children leave in it, goes at the end.
  const TempDirectory parent;
  const testing::ScopedEnvironment inherited("TMPDIR", parent.path());
  const KernelSpec spec{.state = GetParam()};
  for (const Moment& moment : {Moment{Phase::kStep, 0, true},
                               Moment{Phase::kSave, 0, true},
                               Moment{Phase::kStep, 20, false},
                               Moment{Phase::kSave, 5, false},
                               Moment{Phase::kStep, 200, false}}) {
    SCOPED_TRACE(moment.transfers);
    const TempDirectory directory;
    const auto work = [&](const std::function<void()>& begun) {
      TrainAndSaveForEver(directory.path(), spec, moment, begun);
    };
    ASSERT_EQ(testing::KillAtWork(work, [] { return std::string(); }), "");
    ExpectToGoOn(directory.path(), spec, moment);
  }
}

INSTANTIATE_TEST_SUITE_P(States,
                         OptimizerKillTest,
                         ::testing::Values(StateType::kFp32, StateType::k8Bit),
                         [](const auto& test) { return std::string(ToString(test.param)); });

}  // namespace
}  // namespace sluice::optim
