#include "runtime/optim/kernels/parameter_copy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/runtime/optim/kernels/every_target.h"
#include "tests/runtime/optim/kernels/reference_update.h"

namespace sluice::optim {
namespace {

/// Any bits, but for signalling NaNs: denormals, infinities, NaNs, and numbers that fp16 has.
std::vector<float> CopiedNumbers(std::size_t count) {
  std::mt19937 random(7);
  std::vector<float> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    const std::uint32_t of_fp16 = 0x33000000u + bits % 0x14800000u;
    numbers.push_back(std::bit_cast<float>(i % 2 != 0 ? of_fp16 : nan ? bits | 0x400000u : bits));
  }
  return numbers;
}

std::vector<std::uint16_t> CopyOf(CopyType type, const std::vector<float>& numbers) {
  std::vector<std::uint16_t> copy(numbers.size() + 1, 0x5a5a);
  CopyParameters(
      {.type = type, .parameters = numbers.data(), .copy = copy.data(), .count = numbers.size()});
  EXPECT_EQ(copy.back(), 0x5a5a);
  copy.pop_back();
  return copy;
}

TEST(ParameterCopyTest, IsToNearestOnEveryTargetWhateverTheThreadRoundsTo) {
  const std::vector<float> numbers = CopiedNumbers(20011);
  for (const int rounding : {FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO}) {
    OnEveryTarget([&] {
      for (const CopyType type : {CopyType::kBf16, CopyType::kFp16}) {
        std::fesetround(rounding);
        const std::vector<std::uint16_t> copy = CopyOf(type, numbers);
        EXPECT_EQ(std::fegetround(), rounding);
        std::fesetround(FE_TONEAREST);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const auto expected =
              type == CopyType::kBf16 ? NearestBf16(numbers[i]) : NearestFp16(numbers[i]);
          ASSERT_EQ(copy[i], expected) << ToString(type) << " " << i << ": " << numbers[i];
        }
      }
    });
  }
}

/// Bits of fp32 and of their copies, independent of the reference.
TEST(ParameterCopyTest, EndsAndTiesAreWhereTheyShouldBe) {
  const auto copy_of = [](CopyType type, std::uint32_t bits) {
    // The copy of 17 equal numbers is made in whole vectors, and the last number alone.
    const std::vector<std::uint16_t> copy =
        CopyOf(type, std::vector(17, std::bit_cast<float>(bits)));
    EXPECT_EQ(copy.front(), copy.back());
    return copy.front();
  };
  OnEveryTarget([&] {
    const CopyType bf16 = CopyType::kBf16, fp16 = CopyType::kFp16;
    EXPECT_EQ(copy_of(fp16, 0x477fe000), 0x7bff);  // 65504
    EXPECT_EQ(copy_of(fp16, 0x477fefff), 0x7bff);  // below 65520
    EXPECT_EQ(copy_of(fp16, 0x477ff000), 0x7c00);  // 65520
    EXPECT_EQ(copy_of(fp16, 0xc77ff000), 0xfc00);
    EXPECT_EQ(copy_of(fp16, 0x3f801000), 0x3c00);  // ties to even
    EXPECT_EQ(copy_of(fp16, 0x3f803000), 0x3c02);
    EXPECT_EQ(copy_of(bf16, 0x3f808000), 0x3f80);
    EXPECT_EQ(copy_of(bf16, 0x3f818000), 0x3f82);
    EXPECT_EQ(copy_of(bf16, 0x7f7fffff), 0x7f80);
    EXPECT_EQ(copy_of(bf16, 0x80000000), 0x8000);
    for (const std::uint32_t nan : {0x7f800001u, 0xff80ffffu, 0x7fbfffffu, 0x7fc00000u}) {
      EXPECT_GT(copy_of(bf16, nan) & 0x7fff, 0x7f80) << nan;
      EXPECT_GT(copy_of(fp16, nan) & 0x7fff, 0x7c00) << nan;
    }
  });
}

}  // namespace
}  // namespace sluice::optim
