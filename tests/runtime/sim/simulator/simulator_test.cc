#include "runtime/sim/simulator/simulator.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/simulator/small_machine.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsStatus;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kTolerance = 1e-9;

/// Two pages that are written in turn.
constexpr const char* kWriteTwo = R"({"tensor": 0, "bytes": 100, "persistent": true}
{"tensor": 1, "bytes": 100, "persistent": true}
{"op": 0, "seconds": 1, "reads": [0], "writes": [0]}
{"op": 1, "seconds": 1, "reads": [1], "writes": [1]}
)";

/// Three pages of a file that are read in turn, each for `seconds`.
std::string ReadThree(const std::string& seconds) {
  std::string text;
  for (const std::string i : {"0", "1", "2"}) {
    text += "{\"tensor\": " + i + ", \"bytes\": 100, \"persistent\": true, \"home\": \"file\"}\n";
  }
  for (const std::string i : {"0", "1", "2"}) {
    text += "{\"op\": " + i + ", \"seconds\": " + seconds + ", \"reads\": [" + i +
            "], \"writes\": []}\n";
  }
  return text;
}

TEST(SimulatorTest, WithRoomForAllAnIterationTakesItsComputeTime) {
  const SimReport report = Simulated(kWriteTwo, SmallOptions({2}));
  EXPECT_THAT(report.iteration_s, ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(report.time_s, 2);
  EXPECT_EQ(report.compute_s, 2);
  EXPECT_EQ(report.stall_s, 0);
  EXPECT_EQ(report.links[0].in_bytes + report.links[0].out_bytes, 0u);
  EXPECT_EQ(report.tiers[0].peak_bytes, 200u);
  EXPECT_EQ(report.tiers[1].peak_bytes, 0u);
  EXPECT_EQ(report.ops_failed, 0u);
}

/// Each op waits for the page of the other to leave and for its own to come.
TEST(SimulatorTest, AWrittenPageGoesOutBeforeAnotherComesIn) {
  const SimReport report = Simulated(kWriteTwo, SmallOptions({1}));
  // Nothing has content at first, so pages come without a copy.
  EXPECT_THAT(report.iteration_s, Pointwise(DoubleNear(kTolerance), {3.0, 6.0, 6.0, 6.0}));
  EXPECT_NEAR(report.time_s, 6, kTolerance);
  EXPECT_NEAR(report.stall_s, 4, kTolerance);
  EXPECT_THAT(report.op_stall_s, Pointwise(DoubleNear(kTolerance), {2.0, 2.0}));
  EXPECT_EQ(report.links[0].in_bytes, 200u);
  EXPECT_EQ(report.links[0].out_bytes, 200u);
  EXPECT_NEAR(report.links[0].busy_in_s, 2, kTolerance);
  EXPECT_NEAR(report.links[0].busy_out_s, 2, kTolerance);
  EXPECT_EQ(report.tiers[0].peak_bytes, 100u);
  EXPECT_EQ(report.tiers[0].budget_bytes, 100u);
}

/// The second page comes while the first op computes, though nothing is prefetched.
TEST(SimulatorTest, AskingAheadWaitsLess) {
  SimOptions options = SmallOptions({2});
  const std::string text = ReadThree("1");
  EXPECT_NEAR(Simulated(text, options).time_s, 6, kTolerance);
  options.ask_ahead = true;
  // Page 0 has to come, for 1 s; 1 comes while it is used, 2 (or 0) while 1 is.
  const SimReport report = Simulated(text, options);
  EXPECT_NEAR(report.time_s, 4, kTolerance);
  EXPECT_NEAR(report.stall_s, 1, kTolerance);
  EXPECT_EQ(report.compute_s, 3);
}

TEST(SimulatorTest, LatencyIsWaitedForOnceAPage) {
  SimOptions options = SmallOptions({1});
  options.machine.links[0].paths[0].latency_s = 0.25;
  const SimReport report = Simulated(kWriteTwo, options);
  EXPECT_NEAR(report.time_s, 7, kTolerance);
  EXPECT_NEAR(report.links[0].busy_in_s, 2, kTolerance);
}

TEST(SimulatorTest, PagesWithAHomeInAFileAreReadAndNeverWritten) {
  const SimReport report = Simulated(ReadThree("1"), SmallOptions({1}));
  EXPECT_THAT(report.iteration_s, Pointwise(DoubleNear(kTolerance), {6.0, 6.0, 6.0, 6.0}));
  EXPECT_EQ(report.links[0].in_bytes, 300u);
  EXPECT_EQ(report.links[0].out_bytes, 0u);
  EXPECT_EQ(report.tiers[1].peak_bytes, 0u);
}

/// Each op reads two pages, which lie on one drive; memory brings both at once.
TEST(SimulatorTest, PagesOnDrivesWaitForThem) {
  std::string text;
  for (const std::string i : {"0", "1", "2", "3"}) {
    text += "{\"tensor\": " + i + ", \"bytes\": 100, \"persistent\": true, \"home\": \"file\"}\n";
  }
  text += R"({"op": 0, "seconds": 1, "reads": [0, 2], "writes": []}
{"op": 1, "seconds": 1, "reads": [1, 3], "writes": []}
)";
  SimOptions options = SmallOptions({2});
  MachineLink& link = options.machine.links[0];
  link.paths.push_back(link.paths[0]);
  EXPECT_NEAR(Simulated(text, options).time_s, 4, kTolerance);
  options.machine.tiers[1].kind = TierKind::kNvme;
  const SimReport report = Simulated(text, options);
  EXPECT_NEAR(report.time_s, 6, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 400u);
  EXPECT_NEAR(report.links[0].busy_in_s, 2, kTolerance);
  ASSERT_EQ(report.links[0].paths.size(), 2u);
  for (const PathUse& path : report.links[0].paths) {
    EXPECT_EQ(path.in_bytes, 200u);
    EXPECT_EQ(path.out_bytes, 0u);
    EXPECT_NEAR(path.busy_in_s, 2, kTolerance);
  }
}

TEST(SimulatorTest, TemporaryTensorsCanHaveAHomeInAFileToo) {
  std::string text = ReadThree("1");
  for (std::size_t at; (at = text.find("true")) != std::string::npos;) text.replace(at, 4, "false");
  const SimReport report = Simulated(text, SmallOptions({3}));
  EXPECT_NEAR(report.time_s, 6, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 300u);
}

TEST(SimulatorTest, ForeseenPagesComeBesideTheComputation) {
  SimOptions options = SmallOptions({2});
  options.prefetch_ops = 1;
  options.policy = core::CreatePolicy("min").value();
  SimReport report = Simulated(ReadThree("1"), options);
  EXPECT_NEAR(report.iteration_s[0], 6, kTolerance);  // nothing is foreseen yet
  EXPECT_NEAR(report.time_s, 3, kTolerance);
  EXPECT_NEAR(report.stall_s, 0, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 300u);
  // Half as much computation: the link is never idle.
  options.policy = core::CreatePolicy("min").value();
  report = Simulated(ReadThree("0.5"), options);
  EXPECT_NEAR(report.time_s, 3, kTolerance);
  EXPECT_NEAR(report.stall_s, 1.5, kTolerance);
  EXPECT_NEAR(report.links[0].busy_in_s, 3, kTolerance);
}

TEST(SimulatorTest, AMiddleTierKeepsWhatItHasRoomFor) {
  // All three stay in dram once they were read: each op waits for one copy.
  SimReport report = Simulated(ReadThree("1"), SmallOptions({1, 5}));
  // Two copies per op: one from the file, one up.
  EXPECT_NEAR(report.iteration_s[0], 9, kTolerance);
  EXPECT_NEAR(report.time_s, 6, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 300u);
  EXPECT_EQ(report.links[1].in_bytes, 0u);
  // One frame besides those of transit: the file is read for every op.
  report = Simulated(ReadThree("1"), SmallOptions({1, 3}));
  EXPECT_NEAR(report.time_s, 9, kTolerance);
  EXPECT_EQ(report.links[1].in_bytes, 300u);
  EXPECT_EQ(report.links[1].out_bytes, 0u);
  EXPECT_LE(report.tiers[1].peak_bytes, 300u);
}

TEST(SimulatorTest, OpsWorkInTheTierThatTheyName) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 100, "persistent": true}
{"op": 0, "seconds": 1, "reads": [0], "writes": [0]}
{"op": 1, "seconds": 1, "tier": "dram", "reads": [0], "writes": [0]}
)",
                                     SmallOptions({1, 4}));
  EXPECT_NEAR(report.time_s, 4, kTolerance);  // one second each way, besides the ops
  EXPECT_EQ(report.links[0].in_bytes, 100u);
  EXPECT_EQ(report.links[0].out_bytes, 100u);
  EXPECT_EQ(report.links[1].in_bytes + report.links[1].out_bytes, 0u);
}

/// Dram is a tier like the others there: a page that hbm has no room for is worked on in place.
TEST(SimulatorTest, OpsWorkInTheLastTier) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 100, "persistent": true}
{"tensor": 1, "bytes": 300, "persistent": true}
{"op": 0, "seconds": 1, "reads": [0], "writes": [0]}
{"op": 1, "seconds": 1, "tier": "dram", "reads": [0, 1], "writes": [0, 1]}
)",
                                     SmallOptions({1}));
  EXPECT_NEAR(report.time_s, 4, kTolerance);  // one second each way, besides the ops
  EXPECT_EQ(report.links[0].in_bytes, 100u);
  EXPECT_EQ(report.links[0].out_bytes, 100u);
  EXPECT_EQ(report.tiers[0].peak_bytes, 100u);
  EXPECT_EQ(report.tiers[1].peak_bytes, 400u);
  EXPECT_EQ(report.ops_failed, 0u);
}

TEST(SimulatorTest, ALastTierThatIsWorkedInHoldsAllThatLivesAndFramesOfTransit) {
  const std::string text = R"({"tensor": 0, "bytes": 300, "persistent": true}
{"op": 0, "seconds": 1, "tier": "dram", "reads": [0], "writes": [0]}
)";
  SimOptions options = SmallOptions({1});
  options.machine.tiers[1].bytes = (3 + 2 * options.transit_frames) * kSmallPage;
  EXPECT_EQ(Simulated(text, options).time_s, 1);
  options.machine.tiers[1].bytes -= kSmallPage;
  EXPECT_THAT(SimulateText(text, options),
              IsStatus(absl::StatusCode::kResourceExhausted,
                       "what persists needs 3 pages of 100 B in dram, which has room for 2: give "
                       "it 100 B more, or name a tier below it"));
}

/// The file is read into dram once, over no link.
TEST(SimulatorTest, FilesLieInTheLastTierThatIsWorkedIn) {
  std::string text = ReadThree("1");
  text += "{\"op\": 3, \"seconds\": 1, \"tier\": \"dram\", \"reads\": [0], \"writes\": []}\n";
  const SimReport report = Simulated(text, SmallOptions({1}));
  EXPECT_NEAR(report.time_s, 7, kTolerance);  // three pages go up, in turn
  EXPECT_NEAR(report.iteration_s[0], 7, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 300u);
  EXPECT_EQ(report.links[0].out_bytes, 0u);
}

TEST(SimulatorTest, DeadPagesAreNeverMoved) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 100, "persistent": false}
{"tensor": 1, "bytes": 100, "persistent": false}
{"op": 0, "seconds": 1, "reads": [], "writes": [0]}
{"op": 1, "seconds": 1, "reads": [0], "writes": [1]}
{"op": 2, "seconds": 1, "reads": [1], "writes": []}
)",
                                     SmallOptions({2}));
  EXPECT_THAT(report.iteration_s, ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(report.links[0].in_bytes + report.links[0].out_bytes, 0u);
  EXPECT_EQ(report.tiers[0].peak_bytes, 200u);
}

TEST(SimulatorTest, LanesRunBesideEachOtherAndWaitForEachOther) {
  const SimReport report = Simulated(R"({"op": 0, "seconds": 1, "reads": [], "writes": []}
{"op": 1, "seconds": 2, "lane": "cpu", "after": [0], "reads": [], "writes": []}
{"op": 2, "seconds": 1, "reads": [], "writes": []}
{"op": 3, "seconds": 1, "after": [1], "reads": [], "writes": []}
)",
                                     SmallOptions({1}));
  EXPECT_EQ(report.time_s, 4);
  EXPECT_EQ(report.compute_s, 4);
  EXPECT_EQ(report.stall_s, 0);
}

TEST(SimulatorTest, LanesShareWhatTheyMake) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 200, "persistent": false}
{"op": 0, "seconds": 1, "reads": [], "writes": [[0, 0, 50]]}
{"op": 1, "seconds": 1, "lane": "cpu", "after": [], "reads": [], "writes": [[0, 100, 100]]}
{"op": 2, "seconds": 1, "after": [1], "reads": [0], "writes": []}
{"op": 3, "seconds": 5, "lane": "cpu", "after": [], "reads": [0], "writes": []}
)",
                                     SmallOptions({2}));
  EXPECT_EQ(report.time_s, 6);
  EXPECT_EQ(report.ops_failed, 0u);
}

TEST(SimulatorTest, LanesThatDoNotFitTogetherTakeTurns) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 100, "persistent": false}
{"tensor": 1, "bytes": 100, "persistent": false}
{"op": 0, "seconds": 1, "reads": [0], "writes": []}
{"op": 1, "seconds": 1, "lane": "cpu", "after": [], "reads": [1], "writes": []}
)",
                                     SmallOptions({1}));
  EXPECT_EQ(report.compute_s, 1);
  EXPECT_EQ(report.time_s, 2);
  EXPECT_EQ(report.stall_s, 1);
}

/// Weights, say: dropping them costs nothing, bringing them back does.
TEST(SimulatorTest, UnwrittenPersistentTensorsHaveContent) {
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 200, "persistent": true}
{"op": 0, "seconds": 1, "reads": [[0, 0, 100]], "writes": []}
{"op": 1, "seconds": 1, "reads": [[0, 100, 100]], "writes": []}
)",
                                     SmallOptions({1}));
  EXPECT_NEAR(report.time_s, 4, kTolerance);
  EXPECT_EQ(report.links[0].in_bytes, 200u);
  EXPECT_EQ(report.links[0].out_bytes, 0u);
}

/// The content of op 0 is still on its way down when it dies, and dram has no room for a second
/// page.
TEST(SimulatorTest, WaitingForRoomIsAStall) {
  SimOptions options = SmallOptions({2});
  options.clean_share = 1;
  options.machine.tiers[1].bytes = (1 + options.copies_in_flight_max) * kSmallPage;
  const SimReport report = Simulated(R"({"tensor": 0, "bytes": 100, "persistent": false}
{"tensor": 1, "bytes": 100, "persistent": false}
{"op": 0, "seconds": 1, "reads": [], "writes": [0]}
{"op": 1, "seconds": 0.5, "reads": [0], "writes": []}
{"op": 2, "seconds": 1, "reads": [], "writes": [1]}
)",
                                     options);
  EXPECT_NEAR(report.iteration_s[0], 3, kTolerance);
  EXPECT_NEAR(report.stall_s, report.time_s - 2.5, kTolerance);
}

TEST(SimulatorTest, TheSteadyStateIsWhatLaterIterationsAre) {
  for (const std::string& policy : core::PolicyNames()) {
    if (policy == "random") continue;
    SimOptions options = SmallOptions({2});
    options.prefetch_ops = 2;
    options.iterations = 4;
    options.policy = core::CreatePolicy(policy).value();
    const SimReport few = Simulated(ReadThree("0.5"), options);
    options.iterations = 40;
    options.policy = core::CreatePolicy(policy).value();
    const SimReport many = Simulated(ReadThree("0.5"), options);
    EXPECT_NEAR(few.time_s, many.time_s, 0.5) << policy;
    EXPECT_NEAR(many.iteration_s[38], many.iteration_s[39], kTolerance) << policy;
  }
}

TEST(SimulatorTest, IsDeterministic) {
  for (const std::string& policy : core::PolicyNames()) {
    SimOptions options = SmallOptions({2, 4});
    options.prefetch_ops = 2;
    options.policy = core::CreatePolicy(policy).value();
    const SimReport first = Simulated(ReadThree("0.7"), options);
    options.policy = core::CreatePolicy(policy).value();
    const SimReport second = Simulated(ReadThree("0.7"), options);
    EXPECT_EQ(first.iteration_s, second.iteration_s) << policy;
    EXPECT_EQ(first.op_stall_s, second.op_stall_s) << policy;
    EXPECT_EQ(first.page_events, second.page_events) << policy;
  }
}

struct Seen final : SimObserver {
  void OnTransfer(std::size_t link, const SimTransfer& transfer) override {
    EXPECT_EQ(link, 0u);
    transfer_s += transfer.end_s - transfer.begin_s;
    bytes += transfer.bytes;
  }
  void OnOp(const SimOpRun& run) override {
    ops.push_back(run.op);
    stall_s += run.begin_s - run.ready_s;
    EXPECT_NEAR(run.end_s - run.begin_s, 1, kTolerance);
  }
  double transfer_s = 0;
  double stall_s = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> ops;
};

TEST(SimulatorTest, AnObserverSeesTransfersAndOps) {
  Seen seen;
  SimOptions options = SmallOptions({1});
  options.observer = &seen;
  options.iterations = 2;
  Simulated(kWriteTwo, options);
  EXPECT_THAT(seen.ops, ElementsAre(0, 1, 0, 1));
  EXPECT_NEAR(seen.stall_s, 1 + 4, kTolerance);
  EXPECT_EQ(seen.bytes, 500u);
  EXPECT_NEAR(seen.transfer_s, 5, kTolerance);
}

// --- what cannot run ----------------------------------------------------------------------------

TEST(SimulatorTest, AnOpLargerThanItsTierIsNamed) {
  const std::string text = R"({"tensor": 0, "bytes": 350, "persistent": true}
{"op": 3, "seconds": 1, "reads": [], "writes": []}
{"op": 7, "name": "l0.f", "seconds": 1, "reads": [0], "writes": []}
)";
  EXPECT_THAT(
      SimulateText(text, SmallOptions({3})),
      IsStatus(absl::StatusCode::kInvalidArgument,
               "op 7 (l0.f, line 4) needs 4 pages of 100 B at once in hbm, where an op can have 3: "
               "give hbm 100 B more"));
  EXPECT_TRUE(SimulateText(text, SmallOptions({4})).ok());
}

TEST(SimulatorTest, OfSeveralOpsThatAreTooLargeTheLargestIsNamed) {
  const std::string text = R"({"tensor": 0, "bytes": 200, "persistent": true}
{"tensor": 1, "bytes": 350, "persistent": true}
{"op": 1, "seconds": 1, "reads": [0], "writes": []}
{"op": 2, "name": "f", "seconds": 1, "reads": [1], "writes": []}
{"op": 3, "seconds": 1, "reads": [0], "writes": []}
)";
  EXPECT_THAT(SimulateText(text, SmallOptions({1})),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "op 2 (f, line 5) needs 4 pages of 100 B at once in hbm, where an op can "
                       "have 1: give hbm 300 B more"));
}

TEST(SimulatorTest, PersistentTensorsMustFitTheLastTier) {
  SimOptions options = SmallOptions({3});
  options.machine.tiers[1].bytes = 5 * kSmallPage;
  EXPECT_THAT(
      SimulateText(kWriteTwo, options),
      IsStatus(absl::StatusCode::kResourceExhausted,
               "what persists needs 2 pages of 100 B in dram, which has room for 1: give it "
               "100 B more, or name a tier below it"));
  options.machine.tiers[1].bytes = 6 * kSmallPage;
  EXPECT_TRUE(SimulateText(kWriteTwo, options).ok());
}

TEST(SimulatorTest, TensorsAliveAtOnceMustFitTheLastTier) {
  const std::string text = R"({"tensor": 0, "bytes": 100, "persistent": true}
{"tensor": 1, "bytes": 300, "persistent": false}
{"op": 0, "seconds": 1, "reads": [], "writes": [0]}
{"op": 2, "name": "g", "seconds": 1, "reads": [], "writes": [1]}
)";
  SimOptions options = SmallOptions({3});
  options.machine.tiers[1] = {TierKind::kNvme, 7 * kSmallPage};
  EXPECT_THAT(
      SimulateText(text, options),
      IsStatus(absl::StatusCode::kResourceExhausted,
               "op 2 (g, line 5) makes what lives at once need 4 pages of 100 B in nvme, which has "
               "room for 3: give it 100 B more"));
  options.machine.tiers[1].bytes = 8 * kSmallPage;
  EXPECT_TRUE(SimulateText(text, options).ok());
}

TEST(SimulatorTest, MachinesThatCannotMoveAPageAreRefused) {
  EXPECT_THAT(SimulateText(kWriteTwo, SmallOptions({0})),
              IsStatus(absl::StatusCode::kInvalidArgument, "hbm has room for 0 pages of 100 B"));
  EXPECT_THAT(SimulateText(kWriteTwo, SmallOptions({1, 2})),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "dram has room for 2 pages of 100 B, and nothing moves with less than 3: "
                       "give it 300 B"));
  SimOptions options = SmallOptions({1, 3});
  options.machine.links.pop_back();
  EXPECT_THAT(SimulateText(kWriteTwo, options),
              IsStatus(absl::StatusCode::kInvalidArgument, "a link between each two"));
}

}  // namespace
}  // namespace sluice::sim
