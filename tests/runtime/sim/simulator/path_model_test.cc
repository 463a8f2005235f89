#include "runtime/sim/simulator/path_model.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

using core::LinkDirection;

constexpr MachinePath kPlain = {.in_bytes_per_s = 100, .out_bytes_per_s = 50};

/// Transfers that finish until the link is idle.
std::vector<PathModel::Finished> Drain(PathModel* link) {
  std::vector<PathModel::Finished> finished;
  while (link->next() < PathModel::kNever) finished.push_back(link->Finish());
  return finished;
}

TEST(PathModelTest, CopiesFollowEachOtherInEachDirection) {
  PathModel link(kPlain);
  EXPECT_EQ(link.next(), PathModel::kNever);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kIn, 2, 200, 0.25);
  link.Start(LinkDirection::kOut, 3, 100, 0.5);
  EXPECT_EQ(link.next(), 1.0);
  const auto finished = Drain(&link);
  ASSERT_EQ(finished.size(), 3u);
  EXPECT_EQ(finished[0].transfer.task, 1u);
  EXPECT_EQ(finished[0].complete_s, 1.0);
  EXPECT_EQ(finished[1].transfer.task, 3u);
  EXPECT_EQ(finished[1].transfer.direction, LinkDirection::kOut);
  EXPECT_EQ(finished[1].complete_s, 2.5);
  EXPECT_EQ(finished[2].transfer.task, 2u);
  EXPECT_EQ(finished[2].complete_s, 3.0);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 3.0);
  EXPECT_EQ(link.busy(LinkDirection::kOut), 2.0);
  EXPECT_EQ(link.bytes(LinkDirection::kIn), 300u);
  EXPECT_EQ(link.bytes(LinkDirection::kOut), 100u);
}

TEST(PathModelTest, ATransferHasTheLinkFromWhenTheOneBeforeItLeft) {
  PathModel link(kPlain);
  link.Start(LinkDirection::kIn, 1, 100, 2);
  link.Start(LinkDirection::kIn, 2, 100, 2.5);
  const auto finished = Drain(&link);
  EXPECT_EQ(finished[0].transfer.begin_s, 2.0);
  EXPECT_EQ(finished[0].transfer.end_s, 3.0);
  EXPECT_EQ(finished[1].transfer.begin_s, 3.0);
  EXPECT_EQ(finished[1].transfer.end_s, 4.0);
  EXPECT_EQ(finished[1].transfer.bytes, 100u);
}

TEST(PathModelTest, LatencyDelaysACompletionOnly) {
  MachinePath slow = kPlain;
  slow.latency_s = 0.25;
  PathModel link(slow);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kIn, 2, 100, 0);
  const auto finished = Drain(&link);
  EXPECT_EQ(finished[0].complete_s, 1.25);
  EXPECT_EQ(finished[1].complete_s, 2.25);
  EXPECT_EQ(finished[1].transfer.end_s, 2.0);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 2.0);
}

TEST(PathModelTest, SerialLatencyOccupiesTheLink) {
  MachinePath serial = kPlain;
  serial.latency_s = 0.25;
  serial.serial = true;
  PathModel link(serial);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kIn, 2, 100, 0);
  link.Start(LinkDirection::kOut, 3, 100, 0);
  const auto finished = Drain(&link);
  EXPECT_EQ(finished[0].complete_s, 1.25);
  EXPECT_EQ(finished[1].complete_s, 2.25);  // out: 2 s and the latency
  EXPECT_EQ(finished[1].transfer.task, 3u);
  EXPECT_EQ(finished[2].complete_s, 2.5);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 2.5);
}

TEST(PathModelTest, BothDirectionsTogetherAreSlower) {
  MachinePath disk = kPlain;
  disk.both_bytes_per_s = 120;  // 150 would be both: each has 0.8 of its rate
  PathModel link(disk);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kOut, 2, 100, 0);
  const auto finished = Drain(&link);
  EXPECT_DOUBLE_EQ(finished[0].complete_s, 1.25);
  EXPECT_DOUBLE_EQ(finished[1].complete_s, 2.25);  // 50 bytes in 1.25 s, the others alone
  EXPECT_DOUBLE_EQ(link.busy(LinkDirection::kIn), 1.25);
  EXPECT_DOUBLE_EQ(link.busy(LinkDirection::kOut), 2.25);
}

TEST(PathModelTest, BothAboveTheSumSlowsNothing) {
  MachinePath disk = kPlain;
  disk.both_bytes_per_s = 1000;
  PathModel link(disk);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kOut, 2, 100, 0);
  const auto finished = Drain(&link);
  EXPECT_DOUBLE_EQ(finished[0].complete_s, 1);
  EXPECT_DOUBLE_EQ(finished[1].complete_s, 2);
}

TEST(PathModelTest, HalfDuplexIsShared) {
  PathModel link({.in_bytes_per_s = 100, .out_bytes_per_s = 100, .both_bytes_per_s = 100});
  link.Start(LinkDirection::kIn, 1, 100, 0);
  link.Start(LinkDirection::kOut, 2, 100, 0.5);
  const auto finished = Drain(&link);
  EXPECT_DOUBLE_EQ(finished[0].complete_s, 1.5);
  EXPECT_DOUBLE_EQ(finished[1].complete_s, 2.0);
}

TEST(PathModelTest, TimeWithoutWorkIsNotBusy) {
  PathModel link(kPlain);
  link.Start(LinkDirection::kIn, 1, 100, 0);
  Drain(&link);
  link.Start(LinkDirection::kIn, 2, 100, 5);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 1.0);
  link.PassTime(5.5);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 1.5);
  EXPECT_EQ(link.next(), 6.0);
  Drain(&link);
  EXPECT_EQ(link.busy(LinkDirection::kIn), 2.0);
  EXPECT_EQ(link.busy(LinkDirection::kOut), 0.0);
}

}  // namespace
}  // namespace sluice::sim
