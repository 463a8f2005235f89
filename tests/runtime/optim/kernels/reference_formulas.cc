#include "tests/runtime/optim/kernels/reference_formulas.h"

#include <algorithm>
#include <cmath>

namespace sluice::optim {
namespace {

/// Scalars that the formulas derive.
struct Scalars {
  explicit Scalars(const KernelScalars& s)
      : b1(s.beta1),
        b2(s.beta2),
        r1(1.0f - s.beta1),
        r2(1.0f - s.beta2),
        decay(s.weight_decay),
        kept(static_cast<float>(1 - s.learning_rate * s.weight_decay)),
        rate(static_cast<float>(s.learning_rate)),
        eps(static_cast<float>(std::max(s.eps, 0x1p-126))),
        a(static_cast<float>(s.learning_rate * s.moment1_scale / std::sqrt(s.moment2_scale))),
        e(static_cast<float>(std::max(s.eps / std::sqrt(s.moment2_scale), 0x1p-126))) {}
  float b1, b2, r1, r2, decay, kept, rate, eps, a, e;
};

void Adam(const Scalars& s, float g, float& p, float* states, bool decoupled) {
  if (!decoupled) g = g + s.decay * p;
  states[0] = s.b1 * states[0] + s.r1 * g;
  states[1] = s.b2 * states[1] + (s.r2 * g) * g;
  const float step = (s.a * states[0]) / (std::sqrt(states[1]) + s.e);
  if (decoupled) p = s.kept * p;
  p = p - step;
}

void Momentum(const Scalars& s, float g, float& p, float* states, bool nesterov) {
  g = g + s.decay * p;
  states[0] = s.b1 * states[0] + g;
  const float step = nesterov ? g + s.b1 * states[0] : states[0];
  p = p - s.rate * step;
}

float SignForLion(const Scalars& s, float g, float m) {
  const float blend = s.b1 * m + s.r1 * g;
  return blend > 0 ? 1.0f : blend < 0 ? -1.0f : blend;
}

void Lion(const Scalars& s, float g, float& p, float* states) {
  p = p - s.rate * (SignForLion(s, g, states[0]) + s.decay * p);
  states[0] = s.b2 * states[0] + s.r2 * g;
}

void Adagrad(const Scalars& s, float g, float& p, float* states) {
  g = g + s.decay * p;
  states[0] = states[0] + g * g;
  p = p - s.rate * (g / (std::sqrt(states[0]) + s.eps));
}

}  // namespace

void ApplyReference(OptimizerKind kind,
                    const KernelScalars& scalars,
                    float gradient,
                    ReferenceElement* element) {
  const Scalars s(scalars);
  float& p = element->p;
  float* const states = element->states;
  switch (kind) {
    case OptimizerKind::kAdam:
      return Adam(s, gradient, p, states, false);
    case OptimizerKind::kAdamW:
      return Adam(s, gradient, p, states, true);
    case OptimizerKind::kSgd:
      return Momentum(s, gradient, p, states, false);
    case OptimizerKind::kNesterov:
      return Momentum(s, gradient, p, states, true);
    case OptimizerKind::kLion:
      return Lion(s, gradient, p, states);
    case OptimizerKind::kAdagrad:
      return Adagrad(s, gradient, p, states);
  }
}

}  // namespace sluice::optim
