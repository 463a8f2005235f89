#include "runtime/optim/kernels/gradient_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/kernels/gradient_scan.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/kernels/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// The sum of sixteen: by fours first, and these in double.
template <typename T>
HWY_INLINE double SumOfSixteen(const T (&sums)[16]) {
  T lanes[4];
  for (std::size_t k = 0; k < 4; ++k) {
    lanes[k] = (sums[k] + sums[k + 4]) + (sums[k + 8] + sums[k + 12]);
  }
  return (double{lanes[0]} + double{lanes[1]}) + (double{lanes[2]} + double{lanes[3]});
}

/// Sixteen running sums of squares, whatever the width of the target, so that the order of
/// additions is fixed; and the largest magnitude.
class SixteenSums {
 public:
  using D = hn::CappedTag<float, 16>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());

  HWY_INLINE SixteenSums() {
    for (std::size_t k = 0; k < 16 / kLanes; ++k) sums_[k] = hn::Zero(D());
    largest_ = hn::Zero(hn::RebindToSigned<D>());
  }

  HWY_INLINE void Add(GradientType type, const void* gradients, std::size_t i) {
    const D d;
    const hn::RebindToSigned<D> di;
    HWY_UNROLL(16)
    for (std::size_t k = 0; k < 16 / kLanes; ++k) {
      const auto x = LoadGradient(d, type, gradients, i + k * kLanes);
      sums_[k] = hn::Add(sums_[k], hn::Mul(x, x));
      largest_ = hn::Max(largest_, hn::BitCast(di, hn::Abs(x)));
    }
  }

  HWY_INLINE double Total() const {
    float sums[16];
    for (std::size_t k = 0; k < 16 / kLanes; ++k) hn::StoreU(sums_[k], D(), sums + k * kLanes);
    return SumOfSixteen(sums);
  }

  /// Whether fp32 had room for `total`, that of these sums: nothing overflowed, and what vanished
  /// of squares below its normal numbers is little beside it.
  HWY_INLINE bool HasRoomFor(double total) const {
    const hn::RebindToSigned<D> di;
    const bool only_zeros = hn::GetLane(hn::MaxOfLanes(di, largest_)) == 0;
    return only_zeros || (total >= 0x1p-126 && std::isfinite(total));
  }

 private:
  hn::Vec<D> sums_[16 / kLanes];
  hn::Vec<hn::RebindToSigned<D>> largest_;
};

/// Adds up the sixteen sums in double, which has room for the square of any number of fp32.
HWY_NOINLINE double SumInDouble(GradientType type,
                                const void* gradients,
                                std::size_t i,
                                std::size_t end) {
  using D = SixteenSums::D;
  double sums[16] = {};
  for (; i + 16 <= end; i += 16) {
    float x[16];
    for (std::size_t k = 0; k < 16; k += SixteenSums::kLanes) {
      hn::StoreU(LoadGradient(D(), type, gradients, i + k), D(), x + k);
    }
    for (std::size_t k = 0; k < 16; ++k) sums[k] += double{x[k]} * double{x[k]};
  }
  return SumOfSixteen(sums);
}

double SumOfBlock(GradientType type, const void* gradients, std::size_t begin, std::size_t end) {
  SixteenSums sums;
  std::size_t i = begin;
  for (; i + 16 <= end; i += 16) sums.Add(type, gradients, i);
  double total = sums.Total();
  if (HWY_UNLIKELY(!sums.HasRoomFor(total))) total = SumInDouble(type, gradients, begin, end);
  for (; i < end; ++i) {
    const hn::CappedTag<float, 1> one;
    const float x = hn::GetLane(LoadGradient(one, type, gradients, i));
    total += double{x} * double{x};
  }
  return total;
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "runtime/optim/kernels/float_environment.h"

namespace sluice::optim {

HWY_EXPORT(SumOfBlock);

double SumOfSquares(GradientType type, const void* gradients, std::size_t count) {
  const DefaultFloatEnvironment environment;
  double sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kSumOfSquaresBlock) {
    const std::size_t end = std::min(begin + kSumOfSquaresBlock, count);
    sum += HWY_DYNAMIC_DISPATCH(SumOfBlock)(type, gradients, begin, end);
  }
  return sum;
}

double SumOfSquares(std::span<const float> values) {
  return SumOfSquares(GradientType::kFp32, values.data(), values.size());
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
