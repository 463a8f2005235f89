// The optimizers' formulas on vectors of fp32. Compiled once per target. Every operation is rounded
// on its own; their order is part of the contract (docs/optimizer.md).

#if defined(SLUICE_OPTIM_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_OPTIM_FORMULAS_INL_H_
#undef SLUICE_OPTIM_FORMULAS_INL_H_
#else
#define SLUICE_OPTIM_FORMULAS_INL_H_
#endif

#include "hwy/highway.h"
#include "runtime/optim/block_codes-inl.h"
#include "runtime/optim/kernel.h"
#include "runtime/optim/number_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::optim::HWY_NAMESPACE {

/// KernelScalars in every lane.
template <class D>
struct Coefficients {
  /// A NaN has no bits that rounding could carry out of it.
  static hn::Vec<D> InEveryLane(float value) { return WithPlainNan(D(), hn::Set(D(), value)); }

  explicit Coefficients(const KernelScalars& s)
      : rate(InEveryLane(s.learning_rate)),
        beta1(InEveryLane(s.beta1)),
        rest1(InEveryLane(1.0f - s.beta1)),
        beta2(InEveryLane(s.beta2)),
        rest2(InEveryLane(1.0f - s.beta2)),
        eps(InEveryLane(s.eps)),
        decay(InEveryLane(s.weight_decay)),
        grad_scale(InEveryLane(s.grad_scale)),
        moment1_scale(InEveryLane(s.moment1_scale)),
        moment2_scale(InEveryLane(s.moment2_scale)) {}

  hn::Vec<D> rate, beta1, rest1, beta2, rest2, eps, decay, grad_scale, moment1_scale, moment2_scale;
};

/// The moments of Adam and AdamW and their quotient.
template <class D, class V>
HWY_INLINE V AdamQuotient(const Coefficients<D>& c, V g, V& m, V& v) {
  m = hn::Add(hn::Mul(c.beta1, m), hn::Mul(c.rest1, g));
  v = hn::Add(hn::Mul(c.beta2, v), hn::Mul(hn::Mul(c.rest2, g), g));
  const auto root = hn::Sqrt(hn::Mul(v, c.moment2_scale));
  return hn::Div(hn::Mul(m, c.moment1_scale), hn::Add(root, c.eps));
}

/// A formula updates parameter `p` and states `s`, `t` from the scaled gradient `g`.
struct AdamW {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& t) {
    const auto quotient = AdamQuotient(c, g, s, t);
    const auto step = hn::Add(quotient, hn::Mul(c.decay, p));
    p = hn::Sub(p, hn::Mul(c.rate, step));
  }
};

struct Adam {
  static constexpr int kStates = 2;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& t) {
    const auto decayed = hn::Add(g, hn::Mul(c.decay, p));
    p = hn::Sub(p, hn::Mul(c.rate, AdamQuotient(c, decayed, s, t)));
  }
};

struct Sgd {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& /*t*/) {
    s = hn::Add(hn::Mul(c.beta1, s), hn::Add(g, hn::Mul(c.decay, p)));
    p = hn::Sub(p, hn::Mul(c.rate, s));
  }
};

struct Nesterov {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& /*t*/) {
    const auto decayed = hn::Add(g, hn::Mul(c.decay, p));
    s = hn::Add(hn::Mul(c.beta1, s), decayed);
    p = hn::Sub(p, hn::Mul(c.rate, hn::Add(decayed, hn::Mul(c.beta1, s))));
  }
};

struct Lion {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kSigned, Sign::kSigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& /*t*/) {
    const D d;
    const auto blend = hn::Add(hn::Mul(c.beta1, s), hn::Mul(c.rest1, g));
    const auto has_sign = hn::Gt(hn::Abs(blend), hn::Zero(d));  // neither zero nor NaN
    const auto sign = hn::IfThenElse(has_sign, hn::CopySign(hn::Set(d, 1.0f), blend), blend);
    p = hn::Sub(p, hn::Mul(c.rate, hn::Add(sign, hn::Mul(c.decay, p))));
    s = hn::Add(hn::Mul(c.beta2, s), hn::Mul(c.rest2, g));
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  static constexpr Sign kSigns[] = {Sign::kUnsigned, Sign::kUnsigned};

  template <class D, class V>
  static HWY_INLINE void Apply(const Coefficients<D>& c, V g, V& p, V& s, V& /*t*/) {
    const auto decayed = hn::Add(g, hn::Mul(c.decay, p));
    s = hn::Add(s, hn::Mul(decayed, decayed));
    const auto quotient = hn::Div(decayed, hn::Add(hn::Sqrt(s), c.eps));
    p = hn::Sub(p, hn::Mul(c.rate, quotient));
  }
};

}  // namespace sluice::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
