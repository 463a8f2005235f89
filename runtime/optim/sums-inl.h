// Sums and products of fp32 together with what rounding left of them. Compiled once per target.

#if defined(SLUICE_OPTIM_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_SUMS_INL_H_
#undef SLUICE_OPTIM_SUMS_INL_H_
#else
#define SLUICE_OPTIM_SUMS_INL_H_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_NATIVE_FMA

/// a * b + c, rounded once.
template <class D, class V>
HWY_INLINE V MulAddOnce(D /*d*/, V a, V b, V c) {
  return hn::MulAdd(a, b, c);
}

/// a * b - c, rounded once. REQUIRES: double holds it exactly, as it does where c is 0 or at most
/// some times as large as the product.
template <class D, class V>
HWY_INLINE V ProductMinus(D /*d*/, V a, V b, V c) {
  return hn::MulSub(a, b, c);
}

#elif HWY_TARGET == HWY_SCALAR

template <class D, class V>
HWY_INLINE V MulAddOnce(D d, V a, V b, V c) {
  return hn::Set(d, std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
}

template <class D, class V>
HWY_INLINE V ProductMinus(D d, V a, V b, V c) {
  const double product = double{hn::GetLane(a)} * double{hn::GetLane(b)};
  return hn::Set(d, static_cast<float>(product - double{hn::GetLane(c)}));
}

#else

/// Calls `work` on doubles instead of fp32, and rounds what it returns.
template <class D, class V, class Work>
HWY_INLINE V InDouble(D d, V a, V b, V c, Work work) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    const hn::CappedTag<double, 1> dd;
    return hn::DemoteTo(d,
                        work(dd, hn::PromoteTo(dd, a), hn::PromoteTo(dd, b), hn::PromoteTo(dd, c)));
  } else {
    const hn::Half<D> half;
    const hn::Repartition<double, D> dd;
    const auto lower = [&](V v) HWY_ATTR { return hn::PromoteTo(dd, hn::LowerHalf(half, v)); };
    const auto upper = [&](V v) HWY_ATTR { return hn::PromoteTo(dd, hn::UpperHalf(half, v)); };
    return hn::Combine(d,
                       hn::DemoteTo(half, work(dd, upper(a), upper(b), upper(c))),
                       hn::DemoteTo(half, work(dd, lower(a), lower(b), lower(c))));
  }
}

/// A number of two bits more than fp32 that was rounded to odd is then rounded as the exact one
/// would be (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
/// using rounding to odd", 2008). The product of two numbers of fp32 is exact in double.
template <class DD, class V>
HWY_INLINE V MulAddToOdd(DD dd, V a, V b, V c) {
  const hn::RebindToSigned<DD> di;
  const V product = hn::Mul(a, b);
  const V sum = hn::Add(product, c);
  const V part = hn::Sub(sum, product);
  const V rest = hn::Add(hn::Sub(product, hn::Sub(sum, part)), hn::Sub(c, part));
  const auto bits = hn::BitCast(di, sum);
  const auto one = hn::Set(di, 1);
  const auto is_even = hn::Eq(hn::And(bits, one), hn::Zero(di));
  const auto is_inexact = hn::RebindMask(di, hn::Gt(hn::Abs(rest), hn::Zero(dd)));
  // Towards the rest: away from zero where both have one sign.
  const auto differ = hn::BroadcastSignBit(hn::Xor(bits, hn::BitCast(di, rest)));
  const auto step = hn::IfThenElseZero(hn::And(is_even, is_inexact), hn::Or(differ, one));
  return hn::BitCast(dd, hn::Add(bits, step));
}

template <class D, class V>
HWY_INLINE V MulAddOnce(D d, V a, V b, V c) {
  return InDouble(d, a, b, c, [](auto dd, auto x, auto y, auto z) HWY_ATTR {
    return MulAddToOdd(dd, x, y, z);
  });
}

template <class D, class V>
HWY_INLINE V ProductMinus(D d, V a, V b, V c) {
  return InDouble(d, a, b, c, [](auto /*dd*/, auto x, auto y, auto z) HWY_ATTR {
    return hn::Sub(hn::Mul(x, y), z);
  });
}

#endif

/// A number as the sum of two: `value` is what fp32 arithmetic gives, `rest` what it leaves.
template <class V>
struct Sum {
  V value, rest;
};

/// Whether it is one.
template <class V>
HWY_INLINE auto IsNumber(V x) {
  return hn::Eq(x, x);
}

/// Guarded, of an infinity itself: what rounding left of it is none.
template <bool kIsGuarded, class V>
HWY_INLINE V Rounded(Sum<V> sum) {
  const V rounded = hn::Add(sum.value, sum.rest);
  if constexpr (!kIsGuarded) return rounded;
  return hn::IfThenElse(IsNumber(rounded), rounded, sum.value);
}

/// The rest; guarded, 0 where it makes no number of the value, which then is an infinity or none.
template <bool kIsGuarded, class V>
HWY_INLINE V FiniteRest(Sum<V> sum) {
  if constexpr (!kIsGuarded) return sum.rest;
  return hn::IfThenElseZero(IsNumber(hn::Add(sum.value, sum.rest)), sum.rest);
}

/// a + b, exactly: Knuth's TwoSum.
template <class V>
HWY_INLINE Sum<V> AddNumbers(V a, V b) {
  const V value = hn::Add(a, b);
  const V of_b = hn::Sub(value, a);
  const V of_a = hn::Sub(value, of_b);
  return {value, hn::Add(hn::Sub(a, of_a), hn::Sub(b, of_b))};
}

/// c + a * b, whose rest is that of the product too.
template <class D, class V>
HWY_INLINE Sum<V> AddProduct(D d, V c, V a, V b) {
  const V value = hn::Add(c, hn::Mul(a, b));
  const V of_product = hn::Sub(value, c);
  const V of_c = hn::Sub(value, of_product);
  return {value, hn::Add(hn::Sub(c, of_c), ProductMinus(d, a, b, of_product))};
}

/// a * x + b * y, the same.
template <class D, class V>
HWY_INLINE Sum<V> AddProducts(D d, V a, V x, V b, V y) {
  const V first = hn::Mul(a, x);
  const V value = hn::Add(first, hn::Mul(b, y));
  const V of_second = hn::Sub(value, first);
  const V of_first = hn::Sub(value, of_second);
  return {value, hn::Add(ProductMinus(d, a, x, of_first), ProductMinus(d, b, y, of_second))};
}

/// scale * x.
template <class D, class V>
HWY_INLINE Sum<V> Product(D d, Sum<V> scale, Sum<V> x) {
  const V value = hn::Mul(scale.value, x.value);
  const V rest = MulAddOnce(d, scale.value, x.rest, ProductMinus(d, scale.value, x.value, value));
  return {value, MulAddOnce(d, scale.rest, x.value, rest)};
}

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
