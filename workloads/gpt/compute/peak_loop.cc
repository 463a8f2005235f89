#include "workloads/gpt/compute/peak_loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "workloads/gpt/compute/peak_loop.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::gpt::HWY_NAMESPACE {

/// Each sum waits for its last addition, which takes four or five cycles; two begin in each cycle.
constexpr int kSums = 12;
constexpr int kRounds = 1 << 18;

double MultiplyAndAdd() {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  volatile float half = 0.5f;
  const auto factor = hn::Set(d, half);
  const auto one = hn::Set(d, half + half);
  auto s0 = one, s1 = one, s2 = one, s3 = one, s4 = one, s5 = one;
  auto s6 = one, s7 = one, s8 = one, s9 = one, s10 = one, s11 = one;
  for (int round = 0; round < kRounds; ++round) {
    s0 = hn::MulAdd(s0, factor, one);
    s1 = hn::MulAdd(s1, factor, one);
    s2 = hn::MulAdd(s2, factor, one);
    s3 = hn::MulAdd(s3, factor, one);
    s4 = hn::MulAdd(s4, factor, one);
    s5 = hn::MulAdd(s5, factor, one);
    s6 = hn::MulAdd(s6, factor, one);
    s7 = hn::MulAdd(s7, factor, one);
    s8 = hn::MulAdd(s8, factor, one);
    s9 = hn::MulAdd(s9, factor, one);
    s10 = hn::MulAdd(s10, factor, one);
    s11 = hn::MulAdd(s11, factor, one);
  }
  const auto left = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  const auto right = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  volatile float kept = hn::GetLane(hn::Add(left, right));
  static_cast<void>(kept);
  return 2.0 * kSums * kRounds * static_cast<double>(hn::Lanes(d));
}

VectorSet CompiledVectorSet() {
  if (HWY_TARGET <= HWY_AVX3) return VectorSet::kAvx512;
  if (HWY_TARGET <= HWY_AVX2) return VectorSet::kAvx2;
  return HWY_TARGET <= HWY_SSE4 ? VectorSet::kSse4 : VectorSet::kNone;
}

}  // namespace sluice::gpt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::gpt {

HWY_EXPORT(MultiplyAndAdd);
HWY_EXPORT(CompiledVectorSet);

double RunPeakLoop() { return HWY_DYNAMIC_DISPATCH(MultiplyAndAdd)(); }
VectorSet PeakVectorSet() { return HWY_DYNAMIC_DISPATCH(CompiledVectorSet)(); }

}  // namespace sluice::gpt
#endif
