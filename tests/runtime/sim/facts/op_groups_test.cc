#include "runtime/sim/facts/op_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

using ::testing::ElementsAre;

TEST(OpGroupsTest, NumbersThatStandForThemselvesAreTheSame) {
  EXPECT_EQ(GroupName("l12.mlp.forward"), "l*.mlp.forward");
  EXPECT_EQ(GroupName("update.l3.w.140"), "update.l*.w.*");
  EXPECT_EQ(GroupName("Conv2d_Backward_7"), "Conv2d_Backward_*");
  EXPECT_EQ(GroupName("GatherV2_Forward"), "GatherV*_Forward");
  EXPECT_EQ(GroupName("16"), "*");
  EXPECT_EQ(GroupName("embedding"), "embedding");
  EXPECT_EQ(GroupName(""), "");
}

TEST(OpGroupsTest, BytesCountOncePerOpAndDirection) {
  FileSchedule schedule;
  schedule.tensors = {{.id = 0, .bytes = 100, .persistent = true, .kind = TensorKind::kParameter},
                      {.id = 1, .bytes = 10, .kind = TensorKind::kActivation}};
  const FileAccess whole{0, {0, 100}};
  const FileAccess part{0, {20, 30}};
  const FileAccess other{1, {0, 10}};
  schedule.ops = {
      {.id = 0, .name = "f0", .seconds = 1, .reads = {whole, part, other}, .writes = {part}},
      {.id = 1, .name = "f1", .seconds = 2, .reads = {part}},
      {.id = 2, .name = "g", .lane = "cpu", .seconds = 5, .writes = {other}}};
  const absl::StatusOr<Extents> extents = Extents::Create(schedule, {});
  ASSERT_TRUE(extents.ok());
  const OpGroups groups = GroupOps(schedule, *extents);
  ASSERT_EQ(groups.by_name.groups.size(), 2u);
  EXPECT_EQ(groups.by_name.groups[0].name, "g");
  EXPECT_THAT(groups.by_name.of_op, ElementsAre(1, 1, 0));
  const OpGroup& f = groups.by_name.groups[1];
  EXPECT_EQ(f.name, "f*");
  EXPECT_EQ(f.ops, 2u);
  EXPECT_EQ(f.seconds, 3);
  constexpr auto kParameter = static_cast<std::size_t>(TensorKind::kParameter);
  constexpr auto kActivation = static_cast<std::size_t>(TensorKind::kActivation);
  EXPECT_EQ(f.read[kParameter], 130u);
  EXPECT_EQ(f.read[kActivation], 10u);
  EXPECT_EQ(f.written[kParameter], 30u);
  EXPECT_EQ(Sum(groups.all.written), 40u);
  ASSERT_EQ(groups.by_lane.groups.size(), 2u);
  EXPECT_EQ(groups.by_lane.groups[0].name, "cpu");
  EXPECT_THAT(groups.by_lane.of_op, ElementsAre(1, 1, 0));
  EXPECT_EQ(groups.all.ops, 3u);
  EXPECT_EQ(groups.all.seconds, 8);
}

TEST(OpGroupsTest, ManyNamesDoNotMakeManyGroups) {
  FileSchedule schedule;
  std::string name;
  for (std::size_t i = 0; i < kGroupsMax + 100; ++i) {
    name.assign(1 + i % 100, 'a');
    name.append(1 + i / 100, 'b');
    schedule.ops.push_back({.id = i, .name = name, .lane = name});
  }
  const absl::StatusOr<Extents> extents = Extents::Create(schedule, {});
  ASSERT_TRUE(extents.ok());
  const OpGroups groups = GroupOps(schedule, *extents);
  for (const Grouping& some : {groups.by_name, groups.by_lane}) {
    EXPECT_EQ(some.groups.size(), kGroupsMax + 1);
    EXPECT_EQ(some.groups.front().name, "(others)");
    EXPECT_EQ(some.groups.front().ops, 100u);
    EXPECT_EQ(some.of_op.back(), 0u);
  }
}

}  // namespace
}  // namespace sluice::sim
