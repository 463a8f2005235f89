// The optimizers' formulas on vectors of fp32. Compiled once per target. Every operation is rounded
// on its own; their order is part of the contract (docs/optimizer-kernels.md).

#if defined(SLUICE_OPTIM_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_FORMULAS_INL_H_
#undef SLUICE_OPTIM_FORMULAS_INL_H_
#else
#define SLUICE_OPTIM_FORMULAS_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "runtime/optim/block_codes-inl.h"
#include "runtime/optim/kernel.h"
#include "runtime/optim/number_types-inl.h"
#include "runtime/optim/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// KernelScalars, and what formulas make of them, in every lane. Products and quotients of scalars
/// are made in double.
template <class D>
struct Coefficients {
  explicit Coefficients(const KernelScalars& s)
      : beta1(InEveryLane(s.beta1)),
        rest1(InEveryLane(1.0f - s.beta1)),
        beta2(InEveryLane(s.beta2)),
        rest2(InEveryLane(1.0f - s.beta2)),
        decay(InEveryLane(s.weight_decay)),
        grad_scale(InEveryLane(s.grad_scale)),
        rate_decay(InEveryLane(static_cast<float>(s.learning_rate * s.weight_decay))),
        rate(Split(s.learning_rate)),
        eps(Split(AtLeastNormal(s.eps))),
        moment_rate(Split(s.learning_rate * s.moment1_scale / std::sqrt(s.moment2_scale))),
        moment_eps(Split(AtLeastNormal(s.eps / std::sqrt(s.moment2_scale)))) {}

  hn::Vec<D> beta1, rest1, beta2, rest2, decay, grad_scale, rate_decay;
  Sum<hn::Vec<D>> rate, eps;
  /// Of Adam, with the corrections of both moments in them.
  Sum<hn::Vec<D>> moment_rate, moment_eps;

 private:
  /// A NaN has no bits that rounding could carry out of it.
  static hn::Vec<D> InEveryLane(float value) { return WithPlainNan(D(), hn::Set(D(), value)); }
  static Sum<hn::Vec<D>> Split(double value) {
    const auto nearest = static_cast<float>(value);
    return {InEveryLane(nearest), InEveryLane(static_cast<float>(value - double{nearest}))};
  }
  /// So that its inverse is finite.
  static double AtLeastNormal(double eps) { return std::max(eps, 0x1p-126); }
};

/// A step of Adam, AdamW or Adagrad that is halfway: what is to be divided, and the root in the
/// divisor.
template <class V>
struct Halfway {
  V dividend, root;
};

/// The moments of Adam and AdamW.
template <class D, class V>
HWY_INLINE Halfway<V> BeginAdam(const Coefficients<D>& c, V g, V& m, V& v) {
  m = hn::Add(hn::Mul(c.beta1, m), hn::Mul(c.rest1, g));
  v = hn::Add(hn::Mul(c.beta2, v), hn::Mul(hn::Mul(c.rest2, g), g));
  return {m, hn::Sqrt(v)};
}

/// How far they move a parameter.
template <class D, class V>
HWY_INLINE V AdamStep(const Coefficients<D>& c, Halfway<V> moments) {
  const auto divisor = hn::Add(moments.root, c.moment_eps.value);
  return hn::Div(hn::Mul(c.moment_rate.value, moments.dividend), divisor);
}

/// A formula updates parameter `p` and states `s`, `t` from the scaled gradient `g`: Begin() the
/// states, Finish() the parameter, with what Begin() returned.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE Halfway<V> Begin(const Coefficients<D>& c, V g, V /*p*/, V& s, V& t) {
    return BeginAdam(c, g, s, t);
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, Halfway<V> moments, V p) {
    return hn::Sub(p, hn::Add(AdamStep(c, moments), hn::Mul(c.rate_decay, p)));
  }
};

/// The gradient with the parameter's decay in it.
template <class D, class V>
HWY_INLINE V DecayedHere(const Coefficients<D>& c, V g, V p) {
  return hn::Add(g, hn::Mul(c.decay, p));
}

struct Adam {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE Halfway<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& t) {
    return BeginAdam(c, DecayedHere(c, g, p), s, t);
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, Halfway<V> moments, V p) {
    return hn::Sub(p, AdamStep(c, moments));
  }
};

struct Sgd {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE V Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    s = hn::Add(hn::Mul(c.beta1, s), DecayedHere(c, g, p));
    return s;
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, V step, V p) {
    return hn::Sub(p, hn::Mul(c.rate.value, step));
  }
};

struct Nesterov {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE V Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    const auto decayed = DecayedHere(c, g, p);
    s = hn::Add(hn::Mul(c.beta1, s), decayed);
    return hn::Add(decayed, hn::Mul(c.beta1, s));
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, V step, V p) {
    return hn::Sub(p, hn::Mul(c.rate.value, step));
  }
};

/// That of what Lion makes of its momentum and a gradient; this itself where it is zero or a NaN.
template <class D, class V>
HWY_INLINE V LionSign(const Coefficients<D>& c, V g, V m) {
  const D d;
  const V blend = hn::Add(hn::Mul(c.beta1, m), hn::Mul(c.rest1, g));
  const auto has_sign = hn::Gt(hn::Abs(blend), hn::Zero(d));
  return hn::IfThenElse(has_sign, hn::CopySign(hn::Set(d, 1.0f), blend), blend);
}

struct Lion {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE V Begin(const Coefficients<D>& c, V g, V /*p*/, V& s, V& /*t*/) {
    const V sign = LionSign(c, g, s);
    s = hn::Add(hn::Mul(c.beta2, s), hn::Mul(c.rest2, g));
    return sign;
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, V sign, V p) {
    const auto step = hn::Add(sign, hn::Mul(c.decay, p));
    return hn::Sub(p, hn::Mul(c.rate.value, step));
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kUnsigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE Halfway<V> Begin(const Coefficients<D>& c, V g, V p, V& s, V& /*t*/) {
    const auto decayed = DecayedHere(c, g, p);
    s = hn::Add(s, hn::Mul(decayed, decayed));
    return {decayed, hn::Sqrt(s)};
  }
  template <class D, class V>
  static HWY_INLINE V Finish(const Coefficients<D>& c, Halfway<V> step, V p) {
    const auto quotient = hn::Div(step.dividend, hn::Add(step.root, c.eps.value));
    return hn::Sub(p, hn::Mul(c.rate.value, quotient));
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
