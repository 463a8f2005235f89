#include "runtime/engine/data/page_mapper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "runtime/engine/api/tensor_table.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::engine {
namespace {

using sluice::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kMappedPage = 4096;

class NamedRange : public MappedRange {
 public:
  std::byte* base() const override { return nullptr; }
};

/// A tier in memory that lists its calls.
class ListingMemory : public MemoryTier {
 public:
  explicit ListingMemory(std::vector<std::string>& calls) : calls_(calls) {}
  std::span<std::byte> Frame(core::FrameIndex) const override { return {}; }
  void Fill(core::FrameIndex, std::uint8_t, device::DoneFn done) override {
    done(absl::UnimplementedError("there are no bytes"));
  }
  absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t) override {
    return std::make_unique<NamedRange>();
  }
  absl::Status Map(MappedRange&, std::uint64_t page, core::FrameIndex frame) override {
    calls_.push_back(fmt::format("map {} to {}", page, frame));
    return failures > 0 && failures-- > 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }
  absl::Status Unmap(MappedRange&, std::uint64_t page) override {
    calls_.push_back(fmt::format("unmap {}", page));
    return absl::OkStatus();
  }
  absl::Status Resize(core::FrameIndex frames) override {
    calls_.push_back(fmt::format("resize {}", frames));
    return absl::OkStatus();
  }
  std::uint64_t allocated_bytes() const override { return 0; }
  double huge_page_share() const override { return 0; }

  int failures = 0;

 private:
  std::vector<std::string>& calls_;
};

class PageMapperTest : public ::testing::Test {
 protected:
  explicit PageMapperTest(LeftMapping left = LeftMapping::kUntilTaken)
      : tiers_(kMappedPage, MakeTiers(left), nullptr, nullptr) {
    segment_ = MakeSegment();
  }

  std::vector<Tier> MakeTiers(LeftMapping left) {
    std::vector<Tier> tiers;
    auto memory = std::make_unique<ListingMemory>(calls_);
    memory_ = memory.get();
    tiers.push_back({kDram0, 16, std::move(memory), left});
    tiers.push_back({kNvme0, 16, nullptr});
    return tiers;
  }
  std::shared_ptr<Segment> MakeSegment() {
    const TensorSpec spec = testing::ByteTensor("t", 16 * kMappedPage);
    return table_.Prepare({&spec, 1}, 1, {}).value();
  }
  PageInFrame At(std::uint64_t page, core::FrameIndex frame) const {
    return {segment_, segment_->parts().first_page + static_cast<PageIndex>(page), 0, frame};
  }

  void Leave(const PageInFrame& place) {
    mapper_.Leave(place, [this](const PageInFrame& gone) { posted_.push_back(gone.page); });
  }
  void Displace(core::FrameIndex frame, PageIndex page) {
    mapper_.Displace(
        0, frame, page, [this](const PageInFrame& gone) { posted_.push_back(gone.page); });
  }

  std::vector<std::string> calls_;  ///< calls of the memory
  std::vector<PageIndex> posted_;   ///< pages posted for unmapping
  ListingMemory* memory_ = nullptr;
  TierSet tiers_;
  TensorTable table_{kMappedPage};
  std::shared_ptr<Segment> segment_;
  Logger logger_{nullptr};
  PageMapper mapper_{{.tiers = &tiers_, .logger = &logger_, .kept_max = 3}};
};

TEST_F(PageMapperTest, APageThatComesBackToItsFrameIsThere) {
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));
  Leave(At(1, 5));
  EXPECT_FALSE(mapper_.Reuse(At(2, 5)));
  Displace(5, At(1, 5).page);
  Displace(6, At(2, 6).page);
  EXPECT_TRUE(mapper_.Reuse(At(1, 5)));
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));  // a page is reused once
  EXPECT_THAT(posted_, IsEmpty());
}

TEST_F(PageMapperTest, APageThatComesToAnotherFrameIsMappedOver) {
  Leave(At(1, 5));
  EXPECT_FALSE(mapper_.Reuse(At(1, 6)));
  // Page 1 is mapped to the other frame now, or will be. Nobody may unmap it any more.
  Displace(5, At(2, 5).page);
  EXPECT_THAT(posted_, IsEmpty());
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));
  Leave(At(1, 6));
  EXPECT_TRUE(mapper_.Reuse(At(1, 6)));
}

TEST_F(PageMapperTest, APageThatTakesTheFrameDisplacesTheMapping) {
  Leave(At(1, 5));
  Displace(5, At(2, 5).page);
  EXPECT_THAT(posted_, ElementsAre(At(1, 5).page));
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));
  Leave(At(3, 5));
  Displace(5, core::kNoPage);
  EXPECT_THAT(posted_, ElementsAre(At(1, 5).page, At(3, 5).page));
}

TEST_F(PageMapperTest, TheOldestGoesBeyondTheLimit) {
  for (const core::FrameIndex i : {1, 2, 3}) Leave(At(i, i));
  EXPECT_THAT(posted_, IsEmpty());
  Leave(At(4, 4));
  EXPECT_THAT(posted_, ElementsAre(At(1, 1).page));
  EXPECT_FALSE(mapper_.Reuse(At(1, 1)));
  EXPECT_TRUE(mapper_.Reuse(At(2, 2)));
}

TEST_F(PageMapperTest, PagesThatAreFreedAreUnmappedAndTheOthersOfTheSegmentStay) {
  for (const core::FrameIndex i : {1, 2, 3}) Leave(At(i, i));
  mapper_.Forget({At(2, 0).page, 2},
                 [this](const PageInFrame& place) { posted_.push_back(place.page); });
  EXPECT_THAT(posted_, ElementsAre(At(2, 2).page, At(3, 3).page));
  EXPECT_FALSE(mapper_.Reuse(At(2, 2)));
  EXPECT_TRUE(mapper_.Reuse(At(1, 1)));
}

TEST_F(PageMapperTest, OldMappingsGoIfNothingMoreCanBeMapped) {
  for (const core::FrameIndex i : {1, 2}) {
    ASSERT_THAT(mapper_.Map(At(i, i)), IsOk());
    Leave(At(i, i));
  }
  calls_.clear();
  memory_->failures = 1;
  EXPECT_THAT(mapper_.Map(At(3, 6)), IsOk());
  EXPECT_THAT(calls_, ElementsAre("map 3 to 6", "unmap 1", "unmap 2", "map 3 to 6"));
  EXPECT_FALSE(mapper_.Reuse(At(1, 1)));
}

TEST_F(PageMapperTest, APageThatCannotBeMappedOverIsUnmapped) {
  ASSERT_THAT(mapper_.Map(At(4, 6)), IsOk());
  calls_.clear();
  memory_->failures = 1;
  EXPECT_FALSE(mapper_.Map(At(4, 7)).ok());
  EXPECT_THAT(calls_, ElementsAre("map 4 to 7", "unmap 4"));
}

TEST_F(PageMapperTest, AFrameThatIsGivenBackIsNotUnderAPageThatIsAboutToBeMappedElsewhere) {
  ASSERT_THAT(mapper_.Map(At(1, 5)), IsOk());
  Leave(At(1, 5));
  EXPECT_FALSE(mapper_.Reuse(At(1, 0)));
  calls_.clear();
  EXPECT_THAT(mapper_.Resize(0, 2), IsOk());
  EXPECT_THAT(calls_, ElementsAre("unmap 1", "resize 2"));
  calls_.clear();
  EXPECT_THAT(mapper_.Map(At(1, 0)), IsOk());
  EXPECT_THAT(mapper_.Resize(0, 1), IsOk());
  EXPECT_THAT(calls_, ElementsAre("map 1 to 0", "resize 1"));
}

class StayingMappingsTest : public PageMapperTest {
 protected:
  StayingMappingsTest() : PageMapperTest(LeftMapping::kStays) {}
};

TEST_F(StayingMappingsTest, AFrameIsUnderTheAddressesOfAllPagesThatWereInIt) {
  for (const core::FrameIndex page : {1, 2, 3}) {
    Displace(5, At(page, 5).page);
    EXPECT_FALSE(mapper_.Reuse(At(page, 5)));
    Leave(At(page, 5));
  }
  for (const core::FrameIndex page : {2, 1, 3}) {
    Displace(5, At(page, 5).page);
    EXPECT_TRUE(mapper_.Reuse(At(page, 5)));
    Leave(At(page, 5));
  }
  EXPECT_THAT(posted_, IsEmpty());
}

TEST_F(StayingMappingsTest, AllAddressesOfAFrameThatIsGivenBackAreUnmapped) {
  for (const PageInFrame& place : {At(1, 5), At(2, 5), At(3, 1)}) {
    ASSERT_THAT(mapper_.Map(place), IsOk());
    Leave(place);
  }
  calls_.clear();
  EXPECT_THAT(mapper_.Resize(0, 2), IsOk());
  EXPECT_THAT(calls_, ElementsAre("unmap 1", "unmap 2", "resize 2"));
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));
  EXPECT_TRUE(mapper_.Reuse(At(3, 1)));
}

TEST_F(StayingMappingsTest, AFreedPageLeavesItsFrameToTheOthers) {
  for (const core::FrameIndex page : {1, 2}) Leave(At(page, 5));
  mapper_.Forget({At(1, 0).page, 1},
                 [this](const PageInFrame& place) { posted_.push_back(place.page); });
  EXPECT_THAT(posted_, ElementsAre(At(1, 5).page));
  EXPECT_TRUE(mapper_.Reuse(At(2, 5)));
}

class GoingMappingsTest : public PageMapperTest {
 protected:
  GoingMappingsTest() : PageMapperTest(LeftMapping::kGoes) {}
};

TEST_F(GoingMappingsTest, APageThatLeavesIsUnmapped) {
  Leave(At(1, 5));
  EXPECT_THAT(posted_, ElementsAre(At(1, 5).page));
  EXPECT_FALSE(mapper_.Reuse(At(1, 5)));
}

TEST_F(PageMapperTest, NothingIsMappedToFramesThatAreGivenBack) {
  for (const core::FrameIndex i : {1, 2, 3}) {
    ASSERT_THAT(mapper_.Map(At(i, i)), IsOk());
    Leave(At(i, i));
  }
  calls_.clear();
  EXPECT_THAT(mapper_.Resize(0, 2), IsOk());
  EXPECT_THAT(calls_, ElementsAre("unmap 2", "unmap 3", "resize 2"));
  EXPECT_FALSE(mapper_.Reuse(At(2, 2)));
  EXPECT_TRUE(mapper_.Reuse(At(1, 1)));
}

}  // namespace
}  // namespace sluice::engine
