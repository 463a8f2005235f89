#include "runtime/optim/gradient_scan.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/gradient_scan.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

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

  /// The sums, added up by fours and these in double.
  HWY_INLINE double Total() const {
    float sums[16];
    for (std::size_t k = 0; k < 16 / kLanes; ++k) hn::StoreU(sums_[k], D(), sums + k * kLanes);
    float lanes[4];
    for (std::size_t k = 0; k < 4; ++k) {
      lanes[k] = (sums[k] + sums[k + 4]) + (sums[k + 8] + sums[k + 12]);
    }
    return (double{lanes[0]} + double{lanes[1]}) + (double{lanes[2]} + double{lanes[3]});
  }

  HWY_INLINE bool finite() const {
    const hn::RebindToSigned<D> di;
    return hn::GetLane(hn::MaxOfLanes(di, largest_)) < static_cast<std::int32_t>(kInfinity);
  }

 private:
  hn::Vec<D> sums_[16 / kLanes];
  hn::Vec<hn::RebindToSigned<D>> largest_;
};

GradientScan ScanBlock(GradientType type, const void* gradients, std::size_t i, std::size_t end) {
  SixteenSums sums;
  for (; i + 16 <= end; i += 16) sums.Add(type, gradients, i);
  double total = sums.Total();
  bool finite = sums.finite();
  for (; i < end; ++i) {
    const hn::CappedTag<float, 1> one;
    const float x = hn::GetLane(LoadGradient(one, type, gradients, i));
    total += double{x} * double{x};
    finite = finite && x - x == 0;
  }
  return {.sum_of_squares = total, .finite = finite};
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "runtime/optim/float_environment.h"

namespace sluice::optim {

HWY_EXPORT(ScanBlock);

GradientScan ScanGradients(GradientType type, const void* gradients, std::size_t count) {
  const DefaultFloatEnvironment environment;
  GradientScan scan;
  for (std::size_t begin = 0; begin < count; begin += kSumOfSquaresBlock) {
    const std::size_t end = std::min(begin + kSumOfSquaresBlock, count);
    const GradientScan block = HWY_DYNAMIC_DISPATCH(ScanBlock)(type, gradients, begin, end);
    scan.sum_of_squares += block.sum_of_squares;
    scan.finite = scan.finite && block.finite;
  }
  return scan;
}

double SumOfSquares(std::span<const float> values) {
  return ScanGradients(GradientType::kFp32, values.data(), values.size()).sum_of_squares;
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
