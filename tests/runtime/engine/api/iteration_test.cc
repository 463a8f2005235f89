#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <thread>

#include "runtime/core/core.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::HasCode;
using testing::IsOk;
using testing::Pattern;
using testing::RuntimeFixture;
using testing::StoreFaults;

constexpr std::size_t kLayers = 24;
constexpr std::uint64_t kLayerPages = 4;

/// A loop over layers that together are twice what hbm and dram hold.
class IterationTest : public ::testing::Test {
 protected:
  void Start() {
    runtime_.Start();
    for (std::size_t i = 0; i < kLayers; ++i) {
      layers_.push_back(runtime_.Make("layer" + std::to_string(i), kLayerPages * kPage));
      runtime_.Write(layers_[i], Pattern(i, kLayerPages * kPage));
    }
  }

  void RunOp(std::size_t layer, AccessMode mode) {
    const Access access{.tensor = layers_[layer], .mode = mode, .tier = kHbm0};
    Op op = runtime_->BeginOp({.name = "op" + std::to_string(layer)});
    const auto lease = op.Acquire(access);
    ASSERT_THAT(lease, IsOk());
    const auto expected = Pattern(layer, kLayerPages * kPage);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), lease->Contiguous().begin()));
  }

  void TrainStep() {
    ASSERT_THAT(runtime_->BeginIteration("train"), IsOk());
    for (std::size_t i = 0; i < kLayers; ++i) RunOp(i, AccessMode::kRead);
    for (std::size_t i = kLayers; i-- > 0;) RunOp(i, AccessMode::kReadWrite);
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
  }

  void ValidationStep() {
    ASSERT_THAT(runtime_->BeginIteration("validation"), IsOk());
    for (std::size_t i = 0; i < kLayers; i += 2) RunOp(i, AccessMode::kRead);
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
  }

  RuntimeFixture runtime_;
  std::vector<TensorId> layers_;
};

TEST_F(IterationTest, TheScheduleIsRecordedPerKey) {
  Start();
  EXPECT_THAT(runtime_->RecordedSchedule("train"), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(runtime_->EndIteration(), HasCode(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(runtime_->BeginIteration("train"), IsOk());
  // A discard before the first op belongs behind the last.
  ASSERT_THAT(runtime_->Discard(layers_[3]), IsOk());
  RunOp(0, AccessMode::kRead);
  ASSERT_THAT(runtime_->Discard(layers_[0]), IsOk());
  {
    Op op = runtime_->BeginOp({.name = "update", .lane = "cpu"});
    ASSERT_THAT(op.AcquireAll({{.tensor = layers_[1],
                                .range = {kPage, 100},
                                .mode = AccessMode::kOverwrite,
                                .tier = kDram0},
                               {.tensor = layers_[2], .tier = kHbm0}})
                    .Take(),
                IsOk());
  }
  EXPECT_THAT(runtime_->RecordedSchedule("train"), HasCode(absl::StatusCode::kNotFound));
  ASSERT_THAT(runtime_->EndIteration(), IsOk());

  const auto schedule = runtime_->RecordedSchedule("train");
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(schedule->key, "train");
  EXPECT_EQ(schedule->page_bytes, kPage);
  ASSERT_EQ(schedule->ops.size(), 2u);
  const ScheduleOp& first = schedule->ops[0];
  EXPECT_EQ(first.name, "op0");
  EXPECT_EQ(first.lane, "gpu");
  EXPECT_GT(first.seconds, 0);
  ASSERT_EQ(first.accesses.size(), 1u);
  EXPECT_EQ(schedule->tensors[first.accesses[0].tensor].name, "layer0");
  EXPECT_EQ(first.accesses[0].range, (ByteRange{0, kLayerPages * kPage}));
  ASSERT_EQ(first.discards.size(), 1u);
  EXPECT_EQ(schedule->tensors[first.discards[0].tensor].name, "layer0");
  const ScheduleOp& second = schedule->ops[1];
  EXPECT_EQ(second.lane, "cpu");
  ASSERT_EQ(second.accesses.size(), 2u);
  EXPECT_EQ(second.accesses[0].mode, AccessMode::kOverwrite);
  EXPECT_EQ(second.accesses[0].range, (ByteRange{kPage, 100}));
  EXPECT_EQ(second.accesses[0].tier, kDram0);
  ASSERT_EQ(second.discards.size(), 1u);
  EXPECT_EQ(schedule->tensors[second.discards[0].tensor].name, "layer3");
}

TEST_F(IterationTest, SchedulesOfKeysThatAreMadeUpAreDropped) {
  runtime_.options.schedules_max = 2;
  Start();
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(runtime_->BeginIteration("key" + std::to_string(i)), IsOk());
    RunOp(0, AccessMode::kRead);
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
  }
  EXPECT_EQ(runtime_->GetStats().schedules_dropped, 3u);
  EXPECT_THAT(runtime_->RecordedSchedule("key2"), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(runtime_->RecordedSchedule("key3"), IsOk());
  runtime_.Stop();
  EXPECT_EQ(runtime_.log.Count("schedules_max"), 1);
}

TEST_F(IterationTest, AnIterationThatIsTooLongIsSaidToBe) {
  runtime_.options.recorded_accesses_max = kLayers * (kLayerPages + 1);
  Start();
  for (int i = 0; i < 3; ++i) TrainStep();
  EXPECT_EQ(runtime_->GetStats().iterations_too_long, 3u);
  EXPECT_EQ(runtime_->GetStats().plans.made, 0u);
  for (int i = 0; i < 2; ++i) ValidationStep();
  EXPECT_EQ(runtime_->GetStats().iterations_too_long, 3u) << "a shorter one is recorded";
  EXPECT_THAT(runtime_->RecordedSchedule("validation"), IsOk());
  runtime_.Stop();
  EXPECT_EQ(runtime_.log.Count("recorded_accesses_max"), 1);
}

TEST_F(IterationTest, ARepeatingLoopIsPrefetched) {
  Start();
  for (int step = 0; step < 4; ++step) TrainStep();
  const Stats stats = runtime_->GetStats();
  EXPECT_GT(stats.prefetch.hit + stats.prefetch.late, kLayers * kLayerPages / 2);
  EXPECT_LE(
      stats.prefetch.hit + stats.prefetch.late + stats.prefetch.revoked + stats.prefetch.wasted,
      stats.prefetch.issued);
  EXPECT_EQ(stats.schedule_divergences, 0u);
}

TEST_F(IterationTest, PrefetchingCanBeTurnedOff) {
  runtime_.options.policy = "min";
  runtime_.options.prefetch_ops = 0;
  Start();
  for (int step = 0; step < 3; ++step) TrainStep();
  EXPECT_EQ(runtime_->GetStats().prefetch.issued, 0u);
}

TEST_F(IterationTest, ValidationBetweenTrainingStepsIsNoDivergence) {
  Start();
  for (int step = 0; step < 6; ++step) {
    TrainStep();
    if (step % 2 == 1) ValidationStep();
  }
  EXPECT_EQ(runtime_->GetStats().schedule_divergences, 0u);
  EXPECT_EQ(runtime_->RecordedSchedule("train")->ops.size(), 2 * kLayers);
  EXPECT_EQ(runtime_->RecordedSchedule("validation")->ops.size(), kLayers / 2);
}

TEST_F(IterationTest, DivergenceIsCountedAndHarmless) {
  Start();
  for (int step = 0; step < 3; ++step) TrainStep();
  ASSERT_THAT(runtime_->BeginIteration("train"), IsOk());
  for (std::size_t i = 0; i < kLayers; ++i) RunOp((i * 7) % kLayers, AccessMode::kReadWrite);
  ASSERT_THAT(runtime_->EndIteration(), IsOk());
  EXPECT_GT(runtime_->GetStats().schedule_divergences, 0u);
  TrainStep();
}

TEST_F(IterationTest, PagesThatAHintNamesArrive) {
  Start();
  constexpr std::uint64_t kPages = 4;
  const Access access{.tensor = layers_[0], .range = {0, kPages * kPage}, .tier = kDram0};
  const std::uint64_t before = runtime_->GetStats().links.at("dram-nvme").in.copies;
  ASSERT_THAT(runtime_->Prefetch({&access, 1}), IsOk());
  while (runtime_->GetStats().links.at("dram-nvme").in.copies < before + kPages) {
    std::this_thread::yield();
  }
  ASSERT_THAT(runtime_.Acquire(access), IsOk());
  EXPECT_EQ(runtime_->GetStats().links.at("dram-nvme").in.copies, before + kPages)
      << "a page of the hint came twice";
  const Access bad{.tensor = TensorId{12345}};
  EXPECT_THAT(runtime_->Prefetch({&bad, 1}), HasCode(absl::StatusCode::kInvalidArgument));
}

/// Tensors that are made and freed anew in every iteration, as activations are: their pages may get
/// other indices than the recorded ones.
TEST_F(IterationTest, TensorsMayComeAndGoWithinAnIteration) {
  Start();
  for (int step = 0; step < 5; ++step) {
    ASSERT_THAT(runtime_->BeginIteration("train"), IsOk());
    std::vector<TensorId> stash;
    for (std::size_t i = 0; i < kLayers; ++i) {
      RunOp(i, AccessMode::kRead);
      stash.push_back(runtime_.Make("act" + std::to_string(i), 2 * kPage + 10));
      runtime_.Write(stash.back(), Pattern(1000 + i, 2 * kPage + 10), 0, kHbm0);
    }
    for (std::size_t i = kLayers; i-- > 0;) {
      ASSERT_EQ(runtime_.Read(stash[i], kHbm0), Pattern(1000 + i, 2 * kPage + 10));
      ASSERT_THAT(runtime_->Free(stash[i]), IsOk());
    }
    ASSERT_THAT(runtime_->EndIteration(), IsOk());
  }
}

TEST_F(IterationTest, TheEventLogReplaysToTheSameActions) {
  StoreFaults& faults = runtime_.faults;
  runtime_.hooks.record_events = true;
  runtime_.hooks.wrap_store = [&](auto store) { return faults.Wrap(std::move(store)); };
  Start();
  for (int step = 0; step < 3; ++step) TrainStep();
  ValidationStep();
  ASSERT_THAT(runtime_->SetBudget(kHbm0, Bytes(10 * kPage)), IsOk());
  { const auto reservation = runtime_->Reserve(kDram0, Bytes(5 * kPage)); }
  ASSERT_THAT(runtime_->Discard(layers_[5]), IsOk());
  ASSERT_THAT(runtime_->Free(layers_[6]), IsOk());
  faults.FailReads(absl::DataLossError("bad"));
  static_cast<void>(runtime_.Acquire({.tensor = layers_[0], .tier = kDram0}));

  const engine::EventLog& log = *internal::RuntimeAccess::StateOf(*runtime_).event_log();
  static_cast<void>(runtime_->GetStats());
  const std::vector<engine::EventLog::Entry> entries = log.Copy();
  ASSERT_GT(entries.size(), 500u);
  core::CoreOptions options = log.options();
  options.policy = core::CreatePolicy(runtime_.options.policy).value();
  const auto fresh = core::Core::Create(options);
  ASSERT_THAT(fresh, IsOk());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::vector<core::Action> actions;
    (*fresh)->Handle(entries[i].event, &actions);
    ASSERT_EQ(actions, entries[i].actions) << "event " << i << ": " << ToString(entries[i].event);
  }
  (*fresh)->CheckInvariants();
}

TEST_F(IterationTest, RecomputeTimesAreRecorded) {
  Start();
  ASSERT_THAT(runtime_->BeginIteration("train"), IsOk());
  {
    const Access accesses[] = {{.tensor = layers_[0]},
                               {.tensor = layers_[1],
                                .mode = AccessMode::kOverwrite,
                                .tier = kHbm0,
                                .recompute_seconds = 0.5}};
    Op op = runtime_->BeginOp({.name = "forward"});
    ASSERT_THAT(op.AcquireAll(accesses).Take(), IsOk());
  }
  ASSERT_THAT(runtime_->EndIteration(), IsOk());
  const auto schedule = runtime_->RecordedSchedule("train");
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(schedule->ops[0].accesses[0].recompute_seconds, std::nullopt);
  EXPECT_EQ(schedule->ops[0].accesses[1].recompute_seconds, 0.5);
}

TEST_F(IterationTest, SecondsToMakeAgainThatAreNoneAreRefused) {
  Start();
  const auto ask = [&](AccessMode mode, double seconds) {
    const Access access{.tensor = layers_[1], .mode = mode, .recompute_seconds = seconds};
    Op op = runtime_->BeginOp({.name = "forward"});
    return op.Acquire(access).status();
  };
  EXPECT_THAT(ask(AccessMode::kOverwrite, 0), IsOk());
  EXPECT_THAT(ask(AccessMode::kReadWrite, 1e9), IsOk());
  for (const double seconds : {-1e-9, std::nan(""), HUGE_VAL, -HUGE_VAL, 1.1e9}) {
    const absl::Status status = ask(AccessMode::kOverwrite, seconds);
    EXPECT_THAT(status, HasCode(absl::StatusCode::kInvalidArgument)) << seconds;
    EXPECT_NE(status.message().find("op 'forward', tensor 'layer1': recompute_seconds is "),
              std::string::npos)
        << status;
  }
  EXPECT_THAT(ask(AccessMode::kRead, 1), HasCode(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace sluice
