#include "runtime/optim/kernels/parameter_copy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/optim/kernels/parameter_copy.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes before highway.h.
#include "hwy/highway.h"
#include "runtime/optim/kernels/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// `value` with the bit that makes a NaN quiet, as arithmetic leaves it.
template <class D>
HWY_INLINE hn::Vec<D> WithQuietNan(D d, hn::Vec<D> value) {
  const auto quiet = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), kQuiet));
  return hn::IfThenElse(hn::Eq(value, value), value, hn::Or(value, quiet));
}

template <class D>
HWY_INLINE void CopyAt(D d, const ParameterCopy& args, std::size_t i) {
  const auto value = LoadGradient(d, GradientType::kFp32, args.parameters, i);
  const hn::Vec<D> values[1] = {WithQuietNan(d, value)};
  StoreCopy(d, args.type, values, args.copy, i);
}

void Copy(const ParameterCopy& args) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 1> one;
  std::size_t i = 0;
  for (; i + hn::MaxLanes(wide) <= args.count; i += hn::MaxLanes(wide)) CopyAt(wide, args, i);
  for (; i < args.count; ++i) CopyAt(one, args, i);
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "runtime/optim/kernels/float_environment.h"

namespace sluice::optim {

HWY_EXPORT(Copy);

void CopyParameters(const ParameterCopy& args) {
  const DefaultFloatEnvironment environment;
  HWY_DYNAMIC_DISPATCH(Copy)(args);
}

}  // namespace sluice::optim

#endif  // HWY_ONCE
