#include <gtest/gtest.h>

#include <random>

#include "runtime/engine/api/name_table.h"
#include "runtime/engine/api/request_builder.h"
#include "runtime/engine/data/link_meter.h"
#include "runtime/engine/data/page_allocator.h"
#include "runtime/engine/data/page_owners.h"
#include "runtime/engine/report/event_log.h"
#include "runtime/engine/report/latency_histogram.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::engine {
namespace {

using testing::ByteTensor;

TEST(PageAllocatorTest, FirstFitAndMergesWhatIsFreed) {
  PageAllocator pages;
  EXPECT_EQ(pages.Allocate(10), 0u);
  EXPECT_EQ(pages.Allocate(5), 10u);
  EXPECT_EQ(pages.Allocate(5), 15u);
  pages.Free(0, 10);
  EXPECT_EQ(pages.Allocate(4), 0u);
  EXPECT_EQ(pages.Allocate(7), 20u) << "the gap of 6 is too small";
  pages.Free(10, 5);
  EXPECT_EQ(pages.Allocate(11), 4u) << "the gap of 6 and its neighbour of 5 are one";
  EXPECT_EQ(pages.Allocate(core::kNoPage), std::nullopt);
}

TEST(NameTableTest, NamesKeepTheirNumbers) {
  NameTable names;
  EXPECT_EQ(names.IndexOf("a"), 0u);
  EXPECT_EQ(names.IndexOf("b"), 1u);
  EXPECT_EQ(names.IndexOf("a"), 0u);
  EXPECT_EQ(names.IndexOf(""), 2u);
}

TEST(NameTableTest, TheNameAskedForLongestAgoIsForgotten) {
  NameTable names(2);
  EXPECT_EQ(names.IndexOf("a"), 0u);
  EXPECT_EQ(names.IndexOf("b"), 1u);
  EXPECT_EQ(names.IndexOf("a"), 0u);
  EXPECT_EQ(names.IndexOf("c"), 2u) << "b goes";
  EXPECT_EQ(names.IndexOf("a"), 0u);
  EXPECT_EQ(names.IndexOf("b"), 3u) << "no number is used twice";
  EXPECT_EQ(names.IndexOf("a"), 0u);
}

TEST(LatencyHistogramTest, PercentilesAreWithinSixPercent) {
  std::mt19937_64 random(5);
  LatencyHistogram histogram;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(std::uint64_t{1} << (random() % 34));
    values.back() += random() % values.back();
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  const LatencyStats stats = histogram.Summary();
  EXPECT_EQ(stats.count, values.size());
  EXPECT_NEAR(stats.p50_us * 1e3 / static_cast<double>(values[4999]), 1, 0.06);
  EXPECT_NEAR(stats.p99_us * 1e3 / static_cast<double>(values[9899]), 1, 0.06);
  EXPECT_DOUBLE_EQ(stats.max_us * 1e3, static_cast<double>(values.back()));
}

TEST(LatencyHistogramTest, AnEmptyOneIsZero) {
  const LatencyStats stats = LatencyHistogram().Summary();
  EXPECT_EQ(stats.count, 0u);
  EXPECT_EQ(stats.p50_us, 0);
  EXPECT_EQ(stats.max_us, 0);
}

TEST(LinkMeterTest, OverlappingCopiesCountTheirTimeOnce) {
  LinkMeter meter;
  const auto first = meter.Begin();
  const auto second = meter.Begin();
  EXPECT_EQ(meter.Read().queue_depth, 2u);
  meter.Succeeded(first, 100);
  const auto end = meter.Failed(second);
  const DirectionStats stats = meter.Read();
  EXPECT_EQ(stats.bytes, 100u);
  EXPECT_EQ(stats.copies, 1u);
  EXPECT_EQ(stats.failed, 1u);
  EXPECT_EQ(stats.queue_depth, 0u);
  EXPECT_EQ(stats.queue_depth_max, 2u);
  EXPECT_DOUBLE_EQ(stats.busy_seconds, std::chrono::duration<double>(end - first).count());
}

TEST(EventLogTest, KeepsTheLast4096AndWritesEachOnce) {
  testing::LogCollector log;
  Logger logger(log.sink());
  EventLog history({}, /*all=*/false);
  for (core::TaskNumber i = 0; i < 5000; ++i) history.Add(core::TaskDone{i});
  history.Dump(logger, "why");
  EXPECT_EQ(log.Count("why; the last 4096 core events follow"), 1);
  EXPECT_EQ(log.Count("event "), 4096);
  EXPECT_EQ(log.Count("event 903: "), 0);
  EXPECT_EQ(log.Count("event 904: task 904 done"), 1);
  history.Add(core::TaskDone{7777});
  history.Dump(logger, "again");
  EXPECT_EQ(log.Count("again; the last 1 core events follow"), 1);
  EXPECT_EQ(log.Count("event 5000: task 7777 done"), 1);
  EXPECT_EQ(log.Count("event "), 4097);
}

class RequestBuilderTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kPage = 4096;

  RequestBuilderTest() : table_(kPage) {
    const std::vector<TensorSpec> specs = {
        ByteTensor("a", 5000), ByteTensor("b", 1000), ByteTensor("c", 2 * kPage)};
    segment_ = table_.Prepare(specs, 2, {}).value();
    table_.Publish(segment_);
  }

  ResolvedAccess Resolved(std::size_t tensor,
                          AccessMode mode,
                          ByteRange range = kWholeTensor,
                          core::TierIndex tier = 1) const {
    ResolvedAccess access{.tensor = segment_->parts().tensors[tensor], .segment = segment_};
    access.tier = tier;
    access.mode = mode;
    access.range = CutRange(*access.tensor, range).value();
    return access;
  }

  std::vector<core::PageMode> ModesOf(const std::vector<ResolvedAccess>& accesses) const {
    std::vector<core::PageMode> modes;
    const TicketDraft draft = DraftTicket(accesses).value();
    for (const core::PageRequest& request : draft.requests) {
      modes.push_back(request.mode);
    }
    return modes;
  }

  TensorTable table_;
  std::shared_ptr<Segment> segment_;
};

using enum core::PageMode;
using Modes = std::vector<core::PageMode>;

TEST_F(RequestBuilderTest, PagesThatAreBeingFreedAreNotUsable) {
  PageOwners owners;
  owners.Add(segment_);
  const core::SegmentIndex index = segment_->parts().index;
  EXPECT_TRUE(owners.Usable(index, {0, 4}));
  EXPECT_FALSE(owners.Usable(index, {0, 5})) << "there is no fifth page";
  EXPECT_FALSE(owners.Usable(index + 1, {0, 4})) << "another segment's";
  const auto draft =
      DraftTicket(std::vector<ResolvedAccess>{Resolved(0, AccessMode::kRead)}).value();
  EXPECT_EQ(owners.FirstUnusable(draft), nullptr);
  owners.MarkDying({1, 1});
  EXPECT_FALSE(owners.Usable(index, {0, 4}));
  EXPECT_TRUE(owners.Usable(index, {2, 2}));
  ASSERT_NE(owners.FirstUnusable(draft), nullptr);
  EXPECT_EQ(owners.FirstUnusable(draft)->tensor->spec.name, "a");
  EXPECT_EQ(owners.Remove({0, 4}), segment_);
  EXPECT_FALSE(owners.Usable(index, {2, 2}));
}

// Layout: a at [0, 5000), b at [5056, 6056), c at [6080, 14272); 4 pages.

TEST_F(RequestBuilderTest, TensorsLieAtMultiplesOf64) {
  EXPECT_EQ(segment_->parts().tensors[1]->offset, 5056u);
  EXPECT_EQ(segment_->parts().tensors[2]->offset, 6080u);
  EXPECT_EQ(segment_->parts().pages, 4u);
}

TEST_F(RequestBuilderTest, OverwriteOfASharedPageIsAWrite) {
  EXPECT_EQ(ModesOf({Resolved(0, AccessMode::kOverwrite)}), (Modes{kOverwrite, kWrite}));
  EXPECT_EQ(ModesOf({Resolved(2, AccessMode::kOverwrite)}),
            (Modes{kWrite, kOverwrite, kOverwrite}));
}

TEST_F(RequestBuilderTest, OverwritesOfOneTicketCountTogetherAndPaddingDoesNot) {
  EXPECT_EQ(ModesOf({Resolved(0, AccessMode::kOverwrite),
                     Resolved(1, AccessMode::kOverwrite),
                     Resolved(2, AccessMode::kOverwrite)}),
            (Modes{kOverwrite, kOverwrite, kOverwrite, kOverwrite}));
  EXPECT_EQ(ModesOf({Resolved(0, AccessMode::kOverwrite),
                     Resolved(1, AccessMode::kOverwrite, {0, 999}),
                     Resolved(2, AccessMode::kOverwrite)}),
            (Modes{kOverwrite, kWrite, kOverwrite, kOverwrite}));
}

TEST_F(RequestBuilderTest, FreedNeighboursDoNotCount) {
  ASSERT_THAT(table_.Free(segment_->parts().tensors[0]->id), testing::IsOk());
  ASSERT_THAT(table_.Free(segment_->parts().tensors[1]->id), testing::IsOk());
  EXPECT_EQ(ModesOf({Resolved(2, AccessMode::kOverwrite)}),
            (Modes{kOverwrite, kOverwrite, kOverwrite}));
}

TEST_F(RequestBuilderTest, AReaderOfTheSamePageKeepsItsContent) {
  EXPECT_EQ(
      ModesOf({Resolved(0, AccessMode::kRead), Resolved(0, AccessMode::kOverwrite, {0, kPage})}),
      (Modes{kWrite, kRead}));
}

TEST_F(RequestBuilderTest, PagesAreMergedAndCountTheirLeases) {
  const auto draft = DraftTicket(std::vector<ResolvedAccess>{Resolved(2, AccessMode::kRead),
                                                             Resolved(0, AccessMode::kRead),
                                                             Resolved(1, AccessMode::kReadWrite)});
  ASSERT_THAT(draft, testing::IsOk());
  ASSERT_EQ(draft->requests.size(), 4u);
  EXPECT_EQ(draft->requests[1].leases, 3u);
  EXPECT_EQ(draft->requests[1].mode, kWrite);
  EXPECT_EQ(draft->requests[2].leases, 1u);
  EXPECT_EQ(draft->accesses[0].first_request, 1u);
  EXPECT_EQ(draft->accesses[0].pages, 3u);
  EXPECT_EQ(draft->accesses[0].first_offset, 6080u - kPage);
  EXPECT_EQ(draft->accesses[1].first_request, 0u);
  EXPECT_EQ(draft->accesses[1].pages, 2u);
}

TEST_F(RequestBuilderTest, OnePageInTwoTiersIsRefused) {
  EXPECT_THAT(
      DraftTicket(std::vector<ResolvedAccess>{Resolved(0, AccessMode::kRead, kWholeTensor, 0),
                                              Resolved(1, AccessMode::kRead, kWholeTensor, 1)}),
      testing::IsStatus(absl::StatusCode::kInvalidArgument, "'a' and 'b' share a page"));
}

}  // namespace
}  // namespace sluice::engine
