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
#include "runtime/optim/kernels/code_map.h"
#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/kernels/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// The scalars of one update in every lane. Products and quotients of scalars are made in double
/// and rounded to fp32 once.
template <class D>
struct Coefficients {
  explicit Coefficients(const KernelScalars& s)
      : beta1(InEveryLane(s.beta1)),
        rest1(InEveryLane(1.0f - s.beta1)),
        beta2(InEveryLane(s.beta2)),
        rest2(InEveryLane(1.0f - s.beta2)),
        decay(InEveryLane(s.weight_decay)),
        grad_scale(InEveryLane(s.grad_scale)),
        rate(Rounded(s.learning_rate)),
        eps(Rounded(AtLeastNormal(s.eps))),
        kept(Rounded(1 - s.learning_rate * s.weight_decay)),
        moment_rate(Rounded(s.learning_rate * s.moment1_scale / std::sqrt(s.moment2_scale))),
        moment_eps(Rounded(AtLeastNormal(s.eps / std::sqrt(s.moment2_scale)))) {}

  hn::Vec<D> beta1, rest1, beta2, rest2, decay, grad_scale, rate, eps;
  hn::Vec<D> kept;  ///< share of the parameter that AdamW's decay leaves
  /// Rate and eps of Adam, with the bias corrections of both moments in them.
  hn::Vec<D> moment_rate, moment_eps;

 private:
  /// The plain NaN has no bits that a rounding could carry out of it.
  static hn::Vec<D> InEveryLane(float value) { return WithPlainNan(D(), hn::Set(D(), value)); }
  static hn::Vec<D> Rounded(double value) { return InEveryLane(static_cast<float>(value)); }
  /// A normal eps keeps 0 / (0 + eps) at 0.
  static double AtLeastNormal(double eps) { return std::max(eps, 0x1p-126); }
};

/// The numbers that one update changes. An optimizer with one state has no `second`.
template <class V>
struct Element {
  V parameter, first, second;
};

/// The gradient with the parameter's decay added.
template <class D, class V>
HWY_INLINE V DecayedGradient(const Coefficients<D>& c, V g, const Element<V>& e) {
  return hn::Add(g, hn::Mul(c.decay, e.parameter));
}

/// Updates both moments of Adam; the step that follows, without any decay.
template <class D, class V>
HWY_INLINE V AdamStep(const Coefficients<D>& c, V g, Element<V>& e) {
  e.first = hn::Add(hn::Mul(c.beta1, e.first), hn::Mul(c.rest1, g));
  e.second = hn::Add(hn::Mul(c.beta2, e.second), hn::Mul(hn::Mul(c.rest2, g), g));
  const V divisor = hn::Add(hn::Sqrt(e.second), c.moment_eps);
  return hn::Div(hn::Mul(c.moment_rate, e.first), divisor);
}

/// Each formula below updates an element from its scaled gradient `g`.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    const V step = AdamStep(c, g, e);
    e.parameter = hn::Sub(hn::Mul(c.kept, e.parameter), step);
  }
};

struct Adam {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    e.parameter = hn::Sub(e.parameter, AdamStep(c, DecayedGradient(c, g, e), e));
  }
};

template <class D, class V>
HWY_INLINE void MoveAlong(const Coefficients<D>& c, V direction, Element<V>& e) {
  e.parameter = hn::Sub(e.parameter, hn::Mul(c.rate, direction));
}

struct Sgd {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    e.first = hn::Add(hn::Mul(c.beta1, e.first), DecayedGradient(c, g, e));
    MoveAlong(c, e.first, e);
  }
};

struct Nesterov {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    const V decayed = DecayedGradient(c, g, e);
    e.first = hn::Add(hn::Mul(c.beta1, e.first), decayed);
    MoveAlong(c, hn::Add(decayed, hn::Mul(c.beta1, e.first)), e);
  }
};

/// The sign of a number: 1 or -1, and the number itself where it is zero or a NaN.
template <class D, class V>
HWY_INLINE V SignOf(D d, V number) {
  const auto has_sign = hn::Gt(hn::Abs(number), hn::Zero(d));
  return hn::IfThenElse(has_sign, hn::CopySign(hn::Set(d, 1.0f), number), number);
}

struct Lion {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    const V blend = hn::Add(hn::Mul(c.beta1, e.first), hn::Mul(c.rest1, g));
    e.first = hn::Add(hn::Mul(c.beta2, e.first), hn::Mul(c.rest2, g));
    MoveAlong(c, hn::Add(SignOf(D(), blend), hn::Mul(c.decay, e.parameter)), e);
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Update(const Coefficients<D>& c, V g, Element<V>& e) {
    const V decayed = DecayedGradient(c, g, e);
    e.first = hn::Add(e.first, hn::Mul(decayed, decayed));
    MoveAlong(c, hn::Div(decayed, hn::Add(hn::Sqrt(e.first), c.eps)), e);
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
