#include "runtime/engine/views/page_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "numa/address_range.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::engine {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kShownPage = 4096;
constexpr std::uint32_t kShownPages = 4;
constexpr core::TierIndex kMemory = 0;
constexpr core::TierIndex kStore = 1;

class ReservedRange : public MappedRange {
 public:
  explicit ReservedRange(std::unique_ptr<numa::AddressRange> range) : range_(std::move(range)) {}
  std::byte* base() const override { return range_->base(); }

 private:
  std::unique_ptr<numa::AddressRange> range_;
};

/// Writes down which frames are shown, and maps none.
class ShowingMemory : public MemoryTier {
 public:
  explicit ShowingMemory(std::vector<std::string>& calls) : calls_(calls) {}
  std::span<std::byte> Frame(core::FrameIndex) const override { return {}; }
  void Fill(core::FrameIndex, std::uint8_t, device::DoneFn done) override {
    done(absl::UnimplementedError("there are no bytes"));
  }
  absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t bytes) override {
    auto range = numa::AddressRange::Reserve(bytes);
    if (!range.ok()) return range.status();
    base_ = (*range)->base();
    return std::make_unique<ReservedRange>(*std::move(range));
  }
  absl::Status Map(MappedRange&, std::uint64_t, core::FrameIndex) override {
    return absl::UnimplementedError("no lease is contiguous here");
  }
  absl::Status Unmap(MappedRange&, std::uint64_t) override { return absl::OkStatus(); }
  absl::Status MapForReading(core::FrameIndex frame, std::byte* address) override {
    calls_.push_back(fmt::format("show {} at {}", frame, (address - base_) / kShownPage));
    return failures > 0 && failures-- > 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }
  absl::Status Resize(core::FrameIndex) override { return absl::OkStatus(); }
  std::uint64_t allocated_bytes() const override { return 0; }
  double huge_page_share() const override { return 0; }

  int failures = 0;

 private:
  std::vector<std::string>& calls_;
  std::byte* base_ = nullptr;
};

class PageViewsTest : public ::testing::Test {
 protected:
  PageViewsTest() : tiers_(kShownPage, MakeTiers(), nullptr, nullptr) {
    const TensorSpec spec = testing::ByteTensor("t", kShownPages * kShownPage);
    segment_ = table_.Prepare({&spec, 1}, kStore, {}, kMemory).value();
    EXPECT_THAT(segment_->EnsureRange(kMemory, *tiers_.memory(kMemory)).status(), IsOk());
    EXPECT_THAT(mapper_.Start("mapper", {}), IsOk());
    EXPECT_THAT(views_.AddZeros(*segment_), IsOk());
  }
  ~PageViewsTest() override { Flush(); }

  std::vector<Tier> MakeTiers() {
    std::vector<Tier> tiers;
    auto memory = std::make_unique<ShowingMemory>(calls_);
    memory_ = memory.get();
    tiers.push_back({kDram0, 16, std::move(memory)});
    tiers.push_back({kNvme0, 16, nullptr});
    return tiers;
  }
  static core::CopyPlace In(core::TierIndex tier, core::FrameIndex frame) {
    return {core::CopyPlace::Kind::kFrame, tier, frame};
  }
  /// The mapper does nothing until Open.
  void Close() {
    mapper_.Post([wait = gate_.get_future()]() mutable { wait.get(); });
  }
  void Open() { gate_.set_value(); }
  void Flush() {
    std::promise<void> done;
    mapper_.Post([&done] { done.set_value(); });
    done.get_future().get();
  }
  void ShowFrame(PageIndex page, core::FrameIndex frame) {
    newest_[page].place = In(kMemory, frame);
    views_.Show(segment_, page, In(kMemory, frame));
    Flush();
    calls_.clear();
  }
  PageViews::Job Note(const std::string& text) {
    return [this, text] { calls_.push_back(text); };
  }

  std::vector<std::string> calls_;  ///< calls of the memory, and jobs
  ShowingMemory* memory_ = nullptr;
  TierSet tiers_;
  TensorTable table_{kShownPage};
  std::shared_ptr<Segment> segment_;
  Logger logger_{nullptr};
  std::map<PageIndex, core::NewestCopy> newest_;
  std::promise<void> gate_;
  SerialExecutor mapper_;
  PageViews views_{{.tiers = &tiers_,
                    .mapper = &mapper_,
                    .logger = &logger_,
                    .find_newest = [this](PageIndex page) { return newest_[page]; }}};
};

TEST_F(PageViewsTest, AFrameIsTakenOnceTheViewHasLeftIt) {
  ShowFrame(0, 3);
  Close();
  newest_[0].place = In(kMemory, 5);
  views_.TakeFrame(kMemory, 3, 1, /*fills=*/false);
  views_.Run(kMemory, 3, Note("copy into 3"));
  EXPECT_FALSE(views_.IsLeft(kMemory, 3));
  EXPECT_THAT(calls_, IsEmpty());
  views_.Run(kMemory, 4, Note("copy into 4"));  // frame 4 shows no page
  EXPECT_THAT(calls_, ElementsAre("copy into 4"));
  Open();
  Flush();
  EXPECT_THAT(calls_, ElementsAre("copy into 4", "show 5 at 0", "copy into 3"));
  EXPECT_TRUE(views_.IsLeft(kMemory, 3));
}

TEST_F(PageViewsTest, JobsForOneFrameKeepTheirOrder) {
  ShowFrame(0, 3);
  Close();
  newest_[0].place = In(kMemory, 5);
  views_.TakeFrame(kMemory, 3, 1, /*fills=*/false);
  views_.Run(kMemory, 3, Note("forget"));
  views_.Run(kMemory, 3, Note("write"));
  Open();
  Flush();
  EXPECT_THAT(calls_, ElementsAre("show 5 at 0", "forget", "write"));
}

TEST_F(PageViewsTest, AFrameShowsItsPageUntilAnotherTakesIt) {
  ShowFrame(0, 3);
  newest_[0].place = In(kMemory, 5);
  // A frame taken for its own page gets the bytes that it shows.
  views_.TakeFrame(kMemory, 3, 0, /*fills=*/false);
  Flush();
  EXPECT_THAT(calls_, IsEmpty());
  views_.TakeFrame(kMemory, 3, 0, /*fills=*/true);
  Flush();
  EXPECT_THAT(calls_, ElementsAre("show 5 at 0"));
}

TEST_F(PageViewsTest, ALeaseIsGrantedWhenItsFrameIsShown) {
  ShowFrame(0, 3);
  EXPECT_TRUE(views_.Show(segment_, 0, In(kMemory, 3)));
  Close();
  EXPECT_FALSE(views_.Show(segment_, 0, In(kMemory, 4)));
  views_.RunLast(Note("grant"));
  Open();
  Flush();
  EXPECT_THAT(calls_, ElementsAre("show 4 at 0", "grant"));
  EXPECT_TRUE(views_.Shows(0, In(kMemory, 4)));
}

TEST_F(PageViewsTest, PagesThatCannotBeMappedAreHiddenAndTriedAgain) {
  ShowFrame(0, 3);
  memory_->failures = 1;
  std::promise<absl::Status> mapped;
  // A copy that shares nothing: absl counts references where ThreadSanitizer does not see it.
  views_.Map(segment_, 0, In(kMemory, 4), [&](const absl::Status& status) {
    mapped.set_value(absl::Status(status.code(), status.message()));
  });
  EXPECT_THAT(mapped.get_future().get(), IsStatus(absl::StatusCode::kResourceExhausted, "full"));
  Flush();
  EXPECT_FALSE(views_.Shows(0, In(kMemory, 4)));
  views_.Arrive(segment_, 0, In(kMemory, 4));
  Flush();
  EXPECT_TRUE(views_.Shows(0, In(kMemory, 4)));
}

TEST_F(PageViewsTest, FramesThatAreGivenBackAreShownNoMore) {
  ShowFrame(0, 3);
  ShowFrame(1, 9);
  newest_[1].place = {.kind = core::CopyPlace::Kind::kZeros};
  views_.LeaveFrames(kMemory, 8);
  Flush();
  EXPECT_TRUE(views_.Shows(0, In(kMemory, 3)));
  EXPECT_TRUE(views_.Shows(1, {.kind = core::CopyPlace::Kind::kZeros}));
}

TEST_F(PageViewsTest, ADiscardIsShownWhenItHasActed) {
  ShowFrame(2, 3);
  newest_[2].dies = true;
  views_.NoteDiscard(segment_, {2, 1});
  views_.ShowDiscarded();
  EXPECT_TRUE(views_.Shows(2, In(kMemory, 3)));
  newest_[2] = {.place = {.kind = core::CopyPlace::Kind::kZeros}};
  views_.ShowDiscarded();
  EXPECT_TRUE(views_.Shows(2, {.kind = core::CopyPlace::Kind::kZeros}));
  ShowFrame(2, 3);
  views_.ShowDiscarded();
  EXPECT_TRUE(views_.Shows(2, In(kMemory, 3))) << "once for each discard";
}

TEST_F(PageViewsTest, TheFrameOfAFreedPageIsTakenOnceTheViewHasLeftIt) {
  ShowFrame(0, 3);
  Close();
  views_.Forget(segment_, {0, 1});
  views_.Run(kMemory, 3, Note("copy into 3"));
  EXPECT_THAT(calls_, IsEmpty());
  Open();
  Flush();
  EXPECT_THAT(calls_, ElementsAre("copy into 3"));
}

}  // namespace
}  // namespace sluice::engine
