#include "bench/store/hashing_choice.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kPage = std::uint64_t{1} << 20;

Case Of(Direction direction, std::uint64_t page_bytes) {
  return {.direction = direction, .page_bytes = page_bytes};
}

TEST(HashingChoiceTest, FewAreTwoMebibytesAndManySixteen) {
  for (const Direction direction : {Direction::kRead, Direction::kMix}) {
    EXPECT_EQ(FewHashing(Of(direction, 256 << 10)), 8u);
    EXPECT_EQ(FewHashing(Of(direction, kPage)), 2u);
    EXPECT_EQ(FewHashing(Of(direction, 8 * kPage)), 2u);
  }
  EXPECT_EQ(ManyHashing(Of(Direction::kRead, 256 << 10)), 64u);
  EXPECT_EQ(ManyHashing(Of(Direction::kRead, kPage)), 16u);
  EXPECT_EQ(ManyHashing(Of(Direction::kRead, 8 * kPage)), 8u);
}

TEST(HashingChoiceTest, WhatOnlyWritesHasNoMoreBuffersThanTheDepth) {
  EXPECT_EQ(FewHashing(Of(Direction::kWrite, 256 << 10)), 0u);
  EXPECT_EQ(FewHashing(Of(Direction::kWrite, 8 * kPage)), 0u);
}

TEST(HashingChoiceTest, OnlyReadsHaveAChoice) {
  for (const Case& which : JudgedCases()) {
    EXPECT_EQ(MayHashMany(which), CaseName(which).starts_with("read/")) << CaseName(which);
  }
}

/// Runs that give `rates` in turn.
class Runs {
 public:
  explicit Runs(std::vector<double> rates) : rates_(std::move(rates)) {}

  absl::StatusOr<std::uint32_t> Choose() {
    return ChooseHashing(Of(Direction::kRead, kPage),
                         [this](std::uint32_t hashing) -> absl::StatusOr<double> {
                           asked_.push_back(hashing);
                           if (asked_.size() > rates_.size())
                             return absl::CancelledError("interrupted");
                           return rates_[asked_.size() - 1];
                         });
  }
  const std::vector<std::uint32_t>& asked() const { return asked_; }

 private:
  const std::vector<double> rates_;
  std::vector<std::uint32_t> asked_;
};

TEST(HashingChoiceTest, TheHigherMeanDecides) {
  Runs many({3.0, 3.2, 3.0, 3.1, 3.0, 3.1, 3.1, 3.0});
  EXPECT_EQ(many.Choose().value(), 16u);
  EXPECT_THAT(many.asked(), ElementsAre(2, 16, 16, 2, 2, 16, 16, 2));
  EXPECT_EQ(Runs({3.0, 3.2, 2.9, 3.1, 3.0, 2.9, 2.9, 3.0}).Choose().value(), 2u);
}

TEST(HashingChoiceTest, WhatChangesAtAnEvenPaceFavoursNeither) {
  EXPECT_EQ(Runs({1, 2, 3, 4, 5, 6, 7, 8}).Choose().value(), 2u);
  EXPECT_EQ(Runs({8, 7, 6, 5, 4, 3, 2, 1}).Choose().value(), 2u);
  EXPECT_EQ(Runs({1, 2.5, 3.5, 4, 5, 6.5, 7.5, 8}).Choose().value(), 16u);
}

TEST(HashingChoiceTest, TheSameRatesLeaveItAtFew) {
  EXPECT_EQ(Runs({3, 3, 3, 3, 3, 3, 3, 3}).Choose().value(), 2u);
}

TEST(HashingChoiceTest, ARunThatFailsIsTheLast) {
  Runs runs({3.0, 3.2});
  EXPECT_EQ(runs.Choose().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(runs.asked().size(), 3u);
}

}  // namespace
}  // namespace sluice::bench
