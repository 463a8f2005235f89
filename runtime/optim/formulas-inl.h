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

/// The states of an element. What has one state has no `second`.
template <class V>
struct States {
  V first, second;
};

/// A formula updates an element from its scaled gradient `g`: Begin() returns a step halfway, of
/// which NewStates() and NewParameter() are made.
struct OneState {
  static constexpr int kStates = 1;

  template <class Step>
  static HWY_INLINE auto NewStates(const Step& step) {
    return States<decltype(step.state)>{step.state, step.state};
  }
};

struct TwoStates {
  static constexpr int kStates = 2;

  template <class Step>
  static HWY_INLINE auto NewStates(const Step& step) {
    return States<decltype(step.first)>{step.first, step.second};
  }
};

/// A step of Adam or AdamW that is halfway: the new moments, and the second one's root.
template <class V>
struct Moments {
  V first, second, root;
};

template <class D, class V>
HWY_INLINE Moments<V> BeginAdam(const Coefficients<D>& c, V g, const States<V>& old) {
  const V first = hn::Add(hn::Mul(c.beta1, old.first), hn::Mul(c.rest1, g));
  const V second = hn::Add(hn::Mul(c.beta2, old.second), hn::Mul(hn::Mul(c.rest2, g), g));
  return {first, second, hn::Sqrt(second)};
}

/// How far they move a parameter.
template <class D, class V>
HWY_INLINE V AdamStep(const Coefficients<D>& c, const Moments<V>& moments) {
  const auto divisor = hn::Add(moments.root, c.moment_eps.value);
  return hn::Div(hn::Mul(c.moment_rate.value, moments.first), divisor);
}

struct AdamW : TwoStates {
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE Moments<V> Begin(const Coefficients<D>& c, V g, V /*p*/, const States<V>& old) {
    return BeginAdam(c, g, old);
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Moments<V>& moments, V p) {
    const V step = hn::Add(AdamStep(c, moments), hn::Mul(c.rate_decay, p));
    return hn::Sub(p, step);
  }
};

/// The gradient with the parameter's decay in it.
template <class D, class V>
HWY_INLINE V DecayedHere(const Coefficients<D>& c, V g, V p) {
  return hn::Add(g, hn::Mul(c.decay, p));
}

struct Adam : TwoStates {
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE Moments<V> Begin(const Coefficients<D>& c, V g, V p, const States<V>& old) {
    return BeginAdam(c, DecayedHere(c, g, p), old);
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Moments<V>& moments, V p) {
    return hn::Sub(p, AdamStep(c, moments));
  }
};

/// A step halfway of what has one state: what a learning rate is yet to multiply.
template <class V>
struct Direction {
  V state, direction;
};

template <class D, class V>
HWY_INLINE V MoveAlong(const Coefficients<D>& c, V direction, V p) {
  return hn::Sub(p, hn::Mul(c.rate.value, direction));
}

struct Sgd : OneState {
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE Direction<V> Begin(const Coefficients<D>& c, V g, V p, const States<V>& old) {
    const V m = hn::Add(hn::Mul(c.beta1, old.first), DecayedHere(c, g, p));
    return {m, m};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Direction<V>& at, V p) {
    return MoveAlong(c, at.direction, p);
  }
};

struct Nesterov : OneState {
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE Direction<V> Begin(const Coefficients<D>& c, V g, V p, const States<V>& old) {
    const V decayed = DecayedHere(c, g, p);
    const V m = hn::Add(hn::Mul(c.beta1, old.first), decayed);
    return {m, hn::Add(decayed, hn::Mul(c.beta1, m))};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Direction<V>& at, V p) {
    return MoveAlong(c, at.direction, p);
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

struct Lion : OneState {
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  /// The direction is without its decay.
  template <class D, class V>
  static HWY_INLINE Direction<V> Begin(const Coefficients<D>& c,
                                       V g,
                                       V /*p*/,
                                       const States<V>& old) {
    const V m = hn::Add(hn::Mul(c.beta2, old.first), hn::Mul(c.rest2, g));
    return {m, LionSign(c, g, old.first)};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Direction<V>& at, V p) {
    return MoveAlong(c, hn::Add(at.direction, hn::Mul(c.decay, p)), p);
  }
};

struct Adagrad : OneState {
  static constexpr Sign kSigns[] = {Sign::kUnsigned, Sign::kUnsigned};

  /// A decayed gradient, and the root of the new sum of squares.
  template <class V>
  struct Halfway {
    V state, decayed, root;
  };

  template <class D, class V>
  static HWY_INLINE Halfway<V> Begin(const Coefficients<D>& c, V g, V p, const States<V>& old) {
    const V decayed = DecayedHere(c, g, p);
    const V squares = hn::Add(old.first, hn::Mul(decayed, decayed));
    return {squares, decayed, hn::Sqrt(squares)};
  }
  template <class D, class V>
  static HWY_INLINE V NewParameter(const Coefficients<D>& c, const Halfway<V>& at, V p) {
    const V quotient = hn::Div(at.decayed, hn::Add(at.root, c.eps.value));
    return hn::Sub(p, hn::Mul(c.rate.value, quotient));
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
