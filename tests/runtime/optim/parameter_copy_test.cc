#include "runtime/optim/parameter_copy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "hwy/targets.h"
#include "tests/runtime/optim/reference_update.h"

namespace sluice::optim {
namespace {

/// Any bits: denormals, infinities and NaNs, and numbers near where fp16 ends.
std::vector<float> Numbers(std::size_t count) {
  std::mt19937 random(7);
  std::vector<float> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const std::uint32_t near_fp16 = 0x33000000u + bits % 0x14800000u;
    numbers.push_back(std::bit_cast<float>(i % 2 == 0 ? bits | 0x00400000u : near_fp16));
  }
  return numbers;
}

TEST(ParameterCopyTest, IsToNearestOnEveryTargetAndLeavesTheRestAlone) {
  const std::vector<float> numbers = Numbers(20011);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    for (const CopyType type : {CopyType::kBf16, CopyType::kFp16}) {
      std::vector<std::uint16_t> copy(numbers.size() + 1, 0x5a5a);
      CopyParameters(
          {.type = type, .parameters = numbers.data(), .copy = copy.data(), .count = 20011});
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto expected =
            type == CopyType::kBf16 ? NearestBf16(numbers[i]) : NearestFp16(numbers[i]);
        ASSERT_EQ(copy[i], expected) << ToString(type) << " " << i << ": " << numbers[i];
      }
      EXPECT_EQ(copy.back(), 0x5a5a);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace sluice::optim
