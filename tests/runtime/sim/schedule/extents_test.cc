#include "runtime/sim/schedule/extents.h"

#include "gtest/gtest.h"

namespace sluice::sim {
namespace {

/// Two tensors of one segment that overlap in its bytes 60 to 99, and one of its own.
FileSchedule Overlapping() {
  FileSchedule schedule;
  schedule.tensors = {{.id = 0, .bytes = 100, .segment = 9},
                      {.id = 1, .bytes = 100, .segment = 9, .segment_offset = 60},
                      {.id = 2, .bytes = 100}};
  schedule.ops = {{.reads = {{1, {10, 20}}, {1, {15, 20}}}, .writes = {{2, {0, 100}}}}};
  return schedule;
}

std::vector<std::uint64_t> Sizes(const Extents& extents, Extents::Range range) {
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = range.first; i < range.last; ++i) sizes.push_back(extents.bytes(i));
  return sizes;
}

using SizeList = std::vector<std::uint64_t>;

TEST(ExtentsTest, AreCutWhereTensorsAndAccessesBeginAndEnd) {
  const FileSchedule schedule = Overlapping();
  const absl::StatusOr<Extents> extents = Extents::Create(schedule, {});
  ASSERT_TRUE(extents.ok());
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(0)), (SizeList{60, 10, 5, 15, 5, 5}));
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(1)), (SizeList{10, 5, 15, 5, 5, 60}));
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(2)), (SizeList{100}));
  EXPECT_EQ(Sizes(*extents, extents->OfAccess(schedule.ops[0].reads[1])), (SizeList{15, 5}));
}

TEST(ExtentsTest, AreWidenedToWholePages) {
  const FileSchedule schedule = Overlapping();
  const absl::StatusOr<Extents> extents = Extents::Create(schedule, {.page_bytes = 64});
  ASSERT_TRUE(extents.ok());
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(0)), (SizeList{64, 64}));
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(1)), (SizeList{64, 64, 64}));
  EXPECT_EQ(Sizes(*extents, extents->OfTensor(2)), (SizeList{128}));
  EXPECT_EQ(Sizes(*extents, extents->OfAccess(schedule.ops[0].reads[0])), (SizeList{64}));
}

TEST(ExtentsTest, AnOpVisitsEachOnce) {
  const FileSchedule schedule = Overlapping();
  const absl::StatusOr<Extents> extents = Extents::Create(schedule, {});
  ASSERT_TRUE(extents.ok());
  const OpVisits visits = CollectVisits(schedule, *extents);
  std::uint64_t bytes = 0;
  for (const std::uint32_t extent : visits.Of(0)) bytes += extents->bytes(extent);
  EXPECT_EQ(bytes, 25u + 100u);
  EXPECT_EQ(visits.Of(0).size(), 4u);
}

}  // namespace
}  // namespace sluice::sim
