#include "runtime/optim/step/gradient_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/step/gradient_sum.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/kernels/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

template <class D>
HWY_INLINE void AddAt(D d, const GradientSum& args, std::size_t i) {
  auto x = LoadGradient(d, args.type, args.gradients, i);
  if (!args.first) x = hn::Add(LoadGradient(d, args.sum_type, args.sum, i), x);
  if (args.sum_type == GradientType::kFp32) {
    hn::StoreU(x, d, static_cast<float*>(args.sum) + i);
  } else {
    const Bits<D> bits[1] = {RoundToNearest(d, x)};
    StoreUpperHalves(d, bits, args.sum, i);
  }
}

void Add(const GradientSum& args) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 1> one;
  std::size_t i = 0;
  for (; i + hn::MaxLanes(wide) <= args.count; i += hn::MaxLanes(wide)) AddAt(wide, args, i);
  for (; i < args.count; ++i) AddAt(one, args, i);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "runtime/optim/kernels/float_environment.h"

namespace sluice::optim {

HWY_EXPORT(Add);

void AddGradients(const GradientSum& args) {
  const DefaultFloatEnvironment environment;
  HWY_DYNAMIC_DISPATCH(Add)(args);
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
