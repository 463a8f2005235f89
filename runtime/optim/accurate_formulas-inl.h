// The same formulas for what is fp32 before and after: within 2 units in the last place of the
// largest term (docs/optimizer-kernels.md). Compiled once per target.

#if defined(SLUICE_OPTIM_ACCURATE_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_ACCURATE_FORMULAS_INL_H_
#undef SLUICE_OPTIM_ACCURATE_FORMULAS_INL_H_
#else
#define SLUICE_OPTIM_ACCURATE_FORMULAS_INL_H_
#endif

#include "hwy/highway.h"
#include "runtime/optim/formulas-inl.h"
#include "runtime/optim/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// A formula's Begin() and Finish(), more exactly.
template <class Formula>
struct Accurate;

/// A gradient is a number, or a sum where a decay is in it: what they have in common.
template <class V>
HWY_INLINE V ValueOf(V gradient) {
  return gradient;
}
template <class V>
HWY_INLINE V ValueOf(Sum<V> gradient) {
  return gradient.value;
}

/// x + a * the gradient's rest.
template <class D, class V>
HWY_INLINE V AddRest(D /*d*/, V x, V /*a*/, V /*gradient*/) {
  return x;
}
template <class D, class V>
HWY_INLINE V AddRest(D d, V x, V a, Sum<V> gradient) {
  return MulAddOnce(d, a, gradient.rest, x);
}

/// The gradient with the parameter's decay in it. Where they cancel to 0 so does the rest: there is
/// no square of it in the second moment to divide it by.
template <class D, class V>
HWY_INLINE Sum<V> Decayed(D d, V gradient, V decay, V p) {
  const Sum<V> sum = AddProduct(d, gradient, decay, p);
  return {sum.value, hn::IfThenZeroElse(hn::Eq(sum.value, hn::Zero(d)), sum.rest)};
}

/// beta * m + rest * gradient.
template <class D, class V, class G>
HWY_INLINE Sum<V> FirstMoment(D d, V beta, V m, V rest, G gradient) {
  Sum<V> sum = AddProducts(d, beta, m, rest, ValueOf(gradient));
  sum.rest = AddRest(d, sum.rest, rest, gradient);
  return sum;
}

/// beta * v + (rest * gradient) * gradient.
template <class D, class V, class G>
HWY_INLINE Sum<V> SecondMoment(D d, V beta, V v, V rest, G gradient) {
  const V g = ValueOf(gradient);
  const V share = hn::Mul(rest, g);
  const V share_rest = AddRest(d, ProductMinus(d, rest, g, share), rest, gradient);
  Sum<V> sum = AddProducts(d, beta, v, share, g);
  sum.rest = AddRest(d, MulAddOnce(d, share_rest, g, sum.rest), share, gradient);
  return sum;
}

/// As Halfway, with what rounding left: the root is of the square's value.
template <class V>
struct AccurateHalfway {
  Sum<V> dividend, square;
  V root;
};

template <>
struct Accurate<AdamW> {
  template <class D, class V>
  static HWY_INLINE AccurateHalfway<V> Begin(const Coefficients<D>& c, V g, V /*p*/, V& s, V& t) {
    const D d;
    const Sum<V> v = SecondMoment(d, c.beta2, t, c.rest2, g);
    const Sum<V> m = FirstMoment(d, c.beta1, s, c.rest1, g);
    s = m.value;
    t = Rounded(v);
    return {m, v, hn::Sqrt(v.value)};
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, const AccurateHalfway<V>& at, V p) {
    const D d;
    const Sum<V> quotient =
        QuotientByRoot(d, c.moment_rate, at.dividend, at.square, at.root, c.moment_eps);
    const V rest = MulAddOnce(d, c.rate_decay, p, FiniteRest(quotient));
    return hn::Sub(p, hn::Add(quotient.value, rest));
  }
};

template <>
struct Accurate<Adam> {
  template <class D, class V>
  static HWY_INLINE AccurateHalfway<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& t) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    const Sum<V> v = SecondMoment(d, c.beta2, t, c.rest2, decayed);
    const Sum<V> m = FirstMoment(d, c.beta1, s, c.rest1, decayed);
    s = Rounded(m);
    t = Rounded(v);
    return {m, v, hn::Sqrt(v.value)};
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, const AccurateHalfway<V>& at, V p) {
    const Sum<V> step =
        QuotientByRoot(D(), c.moment_rate, at.dividend, at.square, at.root, c.moment_eps);
    return hn::Sub(p, Rounded(step));
  }
};

/// beta * m + gradient.
template <class D, class V>
HWY_INLINE Sum<V> Momentum(D d, V beta, V m, Sum<V> gradient) {
  Sum<V> sum = AddProduct(d, gradient.value, beta, m);
  sum.rest = hn::Add(sum.rest, gradient.rest);
  return sum;
}

template <>
struct Accurate<Sgd> {
  template <class D, class V>
  static HWY_INLINE Sum<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    const D d;
    const Sum<V> m = Momentum(d, c.beta1, s, Decayed(d, g, c.decay, p));
    s = Rounded(m);
    return m;
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, Sum<V> step, V p) {
    return hn::Sub(p, Rounded(Product(D(), c.rate, step)));
  }
};

template <>
struct Accurate<Nesterov> {
  template <class D, class V>
  static HWY_INLINE Sum<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    const Sum<V> m = Momentum(d, c.beta1, s, decayed);
    s = Rounded(m);
    Sum<V> step = Momentum(d, c.beta1, m.value, decayed);
    step.rest = MulAddOnce(d, c.beta1, m.rest, step.rest);
    return step;
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, Sum<V> step, V p) {
    return hn::Sub(p, Rounded(Product(D(), c.rate, step)));
  }
};

template <>
struct Accurate<Lion> {
  template <class D, class V>
  static HWY_INLINE V Begin(const Coefficients<D>& c, V g, V p, V& s, V& t) {
    return Lion::Begin(c, g, p, s, t);
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, V sign, V p) {
    const D d;
    const Sum<V> step = AddProduct(d, sign, c.decay, p);
    return hn::Sub(p, Rounded(Product(d, c.rate, step)));
  }
};

template <>
struct Accurate<Adagrad> {
  template <class D, class V>
  static HWY_INLINE AccurateHalfway<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    Sum<V> squares = AddProduct(d, s, decayed.value, decayed.value);
    const V twice = hn::Add(decayed.value, decayed.value);
    squares.rest = MulAddOnce(d, twice, decayed.rest, squares.rest);
    s = Rounded(squares);
    return {decayed, squares, hn::Sqrt(squares.value)};
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, const AccurateHalfway<V>& at, V p) {
    const Sum<V> quotient = QuotientByRoot(D(), c.rate, at.dividend, at.square, at.root, c.eps);
    return hn::Sub(p, Rounded(quotient));
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
