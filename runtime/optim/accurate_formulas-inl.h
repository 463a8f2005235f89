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

/// A formula, more exactly. Not guarded, it gives a NaN where an infinity, or what overflows on the
/// way, meets what rounding left of it: of a state only where it gives one of the parameter too.
template <class Formula, bool kIsGuarded>
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

/// A step that is halfway: what is to be divided, and the root, that of the square's value, in the
/// divisor.
template <class V>
struct Fraction {
  Sum<V> dividend, square;
  V root;
};

/// scale * dividend / (sqrt(square) + eps).
///
/// With z = 1 / divisor and q = product * z, both rounded, q is too large by (q * divisor - product
/// + q * (rest of the divisor)) * z. The rest of the root is (square - root^2) / (2 * root), and of
/// 1 / (2 * root) we have z * (1 / 2 + eps * z): with t = eps * z, the share of eps in the divisor,
/// it is (1 - t) * (1 + 2 * t) of it, which is off by at most a tenth of what the rest comes to
/// beside the divisor, where eps is about as large as the root.
template <class D, class V>
HWY_INLINE Sum<V> QuotientByRoot(D d, Sum<V> scale, const Fraction<V>& at, Sum<V> eps) {
  const V root = at.root;
  const Sum<V> divisor = AddNumbers(root, eps.value);
  const V z = hn::Div(hn::Set(d, 1.0f), divisor.value);
  const V half_inverse = hn::Mul(z, MulAddOnce(d, eps.value, z, hn::Set(d, 0.5f)));
  const Sum<V> product = Product(d, scale, at.dividend);
  const V q = hn::Mul(product.value, z);
  const V below_root = hn::Sub(at.square.rest, ProductMinus(d, root, root, at.square.value));
  const V divisor_rest = hn::Add(MulAddOnce(d, below_root, half_inverse, eps.rest), divisor.rest);
  const V excess = MulAddOnce(d, q, divisor_rest, ProductMinus(d, q, divisor.value, product.value));
  const V missing = hn::Sub(product.rest, excess);
  return {q, hn::Mul(missing, z)};
}

template <bool kIsGuarded>
struct Accurate<AdamW, kIsGuarded> : AdamW {
  template <class D, class V>
  static HWY_INLINE Fraction<V> Begin(const Coefficients<D>& c, V g, V /*p*/, States<V> old) {
    const D d;
    const Sum<V> v = SecondMoment(d, c.beta2, old.second, c.rest2, g);
    return {FirstMoment(d, c.beta1, old.first, c.rest1, g), v, hn::Sqrt(v.value)};
  }
  template <class V>
  static HWY_INLINE States<V> NewStates(const Fraction<V>& at) {
    return {at.dividend.value, Rounded<kIsGuarded>(at.square)};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Fraction<V>& at, V p) {
    const D d;
    const Sum<V> quotient = QuotientByRoot(d, c.moment_rate, at, c.moment_eps);
    const V rest = MulAddOnce(d, c.rate_decay, p, FiniteRest<kIsGuarded>(quotient));
    return hn::Sub(p, hn::Add(quotient.value, rest));
  }
};

template <bool kIsGuarded>
struct Accurate<Adam, kIsGuarded> : Adam {
  template <class D, class V>
  static HWY_INLINE Fraction<V> Begin(const Coefficients<D>& c, V g, V p, States<V> old) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    const Sum<V> v = SecondMoment(d, c.beta2, old.second, c.rest2, decayed);
    return {FirstMoment(d, c.beta1, old.first, c.rest1, decayed), v, hn::Sqrt(v.value)};
  }
  template <class V>
  static HWY_INLINE States<V> NewStates(const Fraction<V>& at) {
    return {Rounded<kIsGuarded>(at.dividend), Rounded<kIsGuarded>(at.square)};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Fraction<V>& at, V p) {
    const Sum<V> step = QuotientByRoot(D(), c.moment_rate, at, c.moment_eps);
    return hn::Sub(p, Rounded<kIsGuarded>(step));
  }
};

/// beta * m + gradient.
template <class D, class V>
HWY_INLINE Sum<V> Momentum(D d, V beta, V m, Sum<V> gradient) {
  Sum<V> sum = AddProduct(d, gradient.value, beta, m);
  sum.rest = hn::Add(sum.rest, gradient.rest);
  return sum;
}

template <bool kIsGuarded>
struct Accurate<Sgd, kIsGuarded> : Sgd {
  template <class D, class V>
  static HWY_INLINE Sum<V> Begin(const Coefficients<D>& c, V g, V p, States<V> old) {
    const D d;
    return Momentum(d, c.beta1, old.first, Decayed(d, g, c.decay, p));
  }
  template <class V>
  static HWY_INLINE States<V> NewStates(Sum<V> m) {
    return {Rounded<kIsGuarded>(m), m.value};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, Sum<V> m, V p) {
    return hn::Sub(p, Rounded<kIsGuarded>(Product(D(), c.rate, m)));
  }
};

template <bool kIsGuarded>
struct Accurate<Nesterov, kIsGuarded> : Nesterov {
  template <class V>
  struct Halfway {
    Sum<V> m, direction;
  };

  template <class D, class V>
  static HWY_INLINE Halfway<V> Begin(const Coefficients<D>& c, V g, V p, States<V> old) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    const Sum<V> m = Momentum(d, c.beta1, old.first, decayed);
    Sum<V> direction = Momentum(d, c.beta1, m.value, decayed);
    direction.rest = MulAddOnce(d, c.beta1, m.rest, direction.rest);
    return {m, direction};
  }
  template <class V>
  static HWY_INLINE States<V> NewStates(const Halfway<V>& at) {
    return {Rounded<kIsGuarded>(at.m), at.m.value};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Halfway<V>& at, V p) {
    return hn::Sub(p, Rounded<kIsGuarded>(Product(D(), c.rate, at.direction)));
  }
};

template <bool kIsGuarded>
struct Accurate<Lion, kIsGuarded> : Lion {
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Direction<V>& at, V p) {
    const D d;
    const Sum<V> step = AddProduct(d, at.direction, c.decay, p);
    return hn::Sub(p, Rounded<kIsGuarded>(Product(d, c.rate, step)));
  }
};

template <bool kIsGuarded>
struct Accurate<Adagrad, kIsGuarded> : Adagrad {
  template <class D, class V>
  static HWY_INLINE Fraction<V> Begin(const Coefficients<D>& c, V g, V p, States<V> old) {
    const D d;
    const Sum<V> decayed = Decayed(d, g, c.decay, p);
    Sum<V> squares = AddProduct(d, old.first, decayed.value, decayed.value);
    const V twice = hn::Add(decayed.value, decayed.value);
    squares.rest = MulAddOnce(d, twice, decayed.rest, squares.rest);
    return {decayed, squares, hn::Sqrt(squares.value)};
  }
  template <class V>
  static HWY_INLINE States<V> NewStates(const Fraction<V>& at) {
    return {Rounded<kIsGuarded>(at.square), at.square.value};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Fraction<V>& at, V p) {
    return hn::Sub(p, Rounded<kIsGuarded>(QuotientByRoot(D(), c.rate, at, c.eps)));
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
