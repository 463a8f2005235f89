#include "runtime/engine/mover/data_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "runtime/engine/api/tensor_table.h"
#include "tests/runtime/engine/runtime_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kPage = 4096;

/// A tier of memory that nothing is mapped in.
class PlainMemory : public MemoryTier {
 public:
  explicit PlainMemory(std::size_t frames) : bytes_(frames * kPage) {}
  std::span<std::byte> Frame(core::FrameIndex frame) const override {
    return std::span(bytes_).subspan(frame * kPage, kPage);
  }
  void Fill(core::FrameIndex frame, std::uint8_t value, device::DoneFn done) override {
    std::memset(Frame(frame).data(), value, kPage);
    done(absl::OkStatus());
  }
  absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t) override {
    return absl::UnimplementedError("nothing is mapped here");
  }
  absl::Status Map(MappedRange&, std::uint64_t, core::FrameIndex) override {
    return absl::UnimplementedError("nothing is mapped here");
  }
  absl::Status Unmap(MappedRange&, std::uint64_t) override { return absl::OkStatus(); }
  absl::Status Resize(core::FrameIndex) override { return absl::OkStatus(); }
  std::uint64_t allocated_bytes() const override { return bytes_.size(); }
  double huge_page_share() const override { return 0; }

 private:
  mutable std::vector<std::byte> bytes_;
};

/// A store that lists its calls.
class ListingStore : public io::PageStore {
 public:
  void Write(io::SlotIndex slot,
             const io::PageIdentity&,
             std::span<const std::byte>,
             io::DoneFn done) override {
    calls.push_back(fmt::format("write {}", slot));
    std::move(done)(absl::OkStatus());
  }
  void Read(io::SlotIndex slot,
            const io::PageIdentity&,
            std::span<std::byte>,
            io::DoneFn done) override {
    calls.push_back(fmt::format("read {}", slot));
    std::move(done)(absl::OkStatus());
  }
  void Hasten(io::SlotIndex slot) override { calls.push_back(fmt::format("hasten {}", slot)); }
  void Forget(io::SlotIndex slot) override { calls.push_back(fmt::format("forget {}", slot)); }
  void RegisterMemory(std::span<std::byte>) override {}
  void UnregisterMemory(std::span<std::byte>) override {}
  io::PageStoreStats stats() const override { return {}; }

  std::vector<std::string> calls;
};

class DataMoverTest : public ::testing::Test {
 protected:
  DataMoverTest() : tiers_(kPage, MakeTiers(), nullptr, &store_) {
    const TensorSpec spec = testing::ByteTensor("t", kPage);
    segment_ = table_.Prepare({&spec, 1}, 1, {}).value();
  }

  static std::vector<Tier> MakeTiers() {
    std::vector<Tier> tiers;
    tiers.push_back({kDram0, 4, std::make_unique<PlainMemory>(4)});
    tiers.push_back({kNvme0, 16, nullptr});
    return tiers;
  }
  static core::StartCopy PageOut(core::TaskNumber task, core::FrameIndex slot, bool urgent) {
    return {.task = task,
            .source = 0,
            .source_frame = 1,
            .target = 1,
            .target_frame = slot,
            .urgent = urgent};
  }

  ListingStore store_;
  TierSet tiers_;
  TensorTable table_{kPage};
  std::shared_ptr<Segment> segment_;
  Mailbox mailbox_{16};
  LinkMeters meters_;
  Logger logger_{nullptr};
  DataMover mover_{
      {.tiers = &tiers_, .mailbox = &mailbox_, .meters = &meters_, .logger = &logger_}};
};

TEST_F(DataMoverTest, AnUrgentPageOutIsHastenedOnceItIsWithTheStore) {
  mover_.Copy(PageOut(1, 5, /*urgent=*/true), segment_);
  EXPECT_THAT(store_.calls, ElementsAre("write 5", "hasten 5"));
}

TEST_F(DataMoverTest, APageOutIsHastenedWhenItBecomesUrgent) {
  mover_.Copy(PageOut(1, 5, /*urgent=*/false), segment_);
  EXPECT_THAT(store_.calls, ElementsAre("write 5"));
  mover_.Hasten({.task = 1, .target = 1, .target_frame = 5});
  EXPECT_THAT(store_.calls, ElementsAre("write 5", "hasten 5"));
}

TEST_F(DataMoverTest, OnlyUrgentPageOutsAreHastened) {
  mover_.Copy({.task = 1, .source = 1, .source_frame = 5, .target = 0, .urgent = true}, segment_);
  mover_.Hasten({.task = 2, .target = 0, .target_frame = 3});
  EXPECT_THAT(store_.calls, ElementsAre("read 5"));
}

}  // namespace
}  // namespace sluice::engine
