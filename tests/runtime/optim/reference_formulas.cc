#include "tests/runtime/optim/reference_formulas.h"

#include <algorithm>
#include <cmath>

namespace sluice::optim {
namespace {

/// A double as the sum of two floats.
struct Split {
  explicit Split(double exact)
      : value(static_cast<float>(exact)), rest(static_cast<float>(exact - double{value})) {}
  float value, rest;
};

/// What formulas make of the scalars.
struct Scalars {
  explicit Scalars(const KernelScalars& s)
      : b1(s.beta1),
        b2(s.beta2),
        r1(1.0f - s.beta1),
        r2(1.0f - s.beta2),
        decay(s.weight_decay),
        d(static_cast<float>(s.learning_rate * s.weight_decay)),
        rate(s.learning_rate),
        eps(std::max(s.eps, 0x1p-126)),
        a(s.learning_rate * s.moment1_scale / std::sqrt(s.moment2_scale)),
        e(std::max(s.eps / std::sqrt(s.moment2_scale), 0x1p-126)) {}
  float b1, b2, r1, r2, decay, d;
  Split rate, eps, a, e;
};

/// Every operation rounded on its own, nothing kept of what it left.
namespace plain {

void Adam(const Scalars& s, float g, float& p, float* states, bool decoupled) {
  if (!decoupled) g = g + s.decay * p;
  states[0] = s.b1 * states[0] + s.r1 * g;
  states[1] = s.b2 * states[1] + (s.r2 * g) * g;
  float step = (s.a.value * states[0]) / (std::sqrt(states[1]) + s.e.value);
  if (decoupled) step = step + s.d * p;
  p = p - step;
}

void Momentum(const Scalars& s, float g, float& p, float* states, bool nesterov) {
  g = g + s.decay * p;
  states[0] = s.b1 * states[0] + g;
  const float step = nesterov ? g + s.b1 * states[0] : states[0];
  p = p - s.rate.value * step;
}

float SignForLion(const Scalars& s, float g, float m) {
  const float blend = s.b1 * m + s.r1 * g;
  return blend > 0 ? 1.0f : blend < 0 ? -1.0f : blend;
}

void Lion(const Scalars& s, float g, float& p, float* states) {
  p = p - s.rate.value * (SignForLion(s, g, states[0]) + s.decay * p);
  states[0] = s.b2 * states[0] + s.r2 * g;
}

void Adagrad(const Scalars& s, float g, float& p, float* states) {
  g = g + s.decay * p;
  states[0] = states[0] + g * g;
  p = p - s.rate.value * (g / (std::sqrt(states[0]) + s.eps.value));
}

}  // namespace plain

/// With what rounding left: docs/optimizer-kernels.md has these sums and products by name.
namespace exact {

struct Sum {
  float value = 0, rest = 0;
};

float Rounded(Sum x) {
  const float rounded = x.value + x.rest;
  return std::isnan(rounded) ? x.value : rounded;
}

Sum AddNumbers(float a, float b) {
  const float value = a + b;
  const float of_b = value - a;
  const float of_a = value - of_b;
  return {value, (a - of_a) + (b - of_b)};
}

/// c + a * b.
Sum AddProduct(float c, float a, float b) {
  const float value = c + a * b;
  const float of_product = value - c;
  const float of_c = value - of_product;
  return {value, (c - of_c) + std::fma(a, b, -of_product)};
}

Sum Decayed(float g, float decay, float p) {
  const Sum sum = AddProduct(g, decay, p);
  return {sum.value, sum.value == 0 ? 0 : sum.rest};
}

/// a * x + b * y.
Sum AddProducts(float a, float x, float b, float y) {
  const float first = a * x;
  const float value = first + b * y;
  const float of_second = value - first;
  const float of_first = value - of_second;
  return {value, std::fma(a, x, -of_first) + std::fma(b, y, -of_second)};
}

Sum Product(const Split& scale, Sum x) {
  const float value = scale.value * x.value;
  float rest = std::fma(scale.value, x.rest, std::fma(scale.value, x.value, -value));
  rest = std::fma(scale.rest, x.value, rest);
  return {value, rest};
}

Sum QuotientByRoot(const Split& scale, Sum x, Sum square, const Split& eps) {
  const float root = std::sqrt(square.value);
  const Sum divisor = AddNumbers(root, eps.value);
  const float z = 1.0f / divisor.value;
  const float half_inverse = z * std::fma(eps.value, z, 0.5f);
  const Sum product = Product(scale, x);
  const float q = product.value * z;
  const float below_root = square.rest - std::fma(root, root, -square.value);
  const float divisor_rest = std::fma(below_root, half_inverse, eps.rest) + divisor.rest;
  const float excess = std::fma(q, divisor_rest, std::fma(q, divisor.value, -product.value));
  const float missing = product.rest - excess;
  return {q, missing * z};
}

void AdamW(const Scalars& s, float g, float& p, float* states) {
  const float share = s.r2 * g;
  Sum v = AddProducts(s.b2, states[1], share, g);
  v.rest = std::fma(std::fma(s.r2, g, -share), g, v.rest);
  const Sum m = AddProducts(s.b1, states[0], s.r1, g);
  states[0] = m.value;
  states[1] = Rounded(v);
  Sum q = QuotientByRoot(s.a, m, v, s.e);
  if (std::isnan(q.value + q.rest)) q.rest = 0;
  p = p - (q.value + std::fma(s.d, p, q.rest));
}

void Adam(const Scalars& s, float gradient, float& p, float* states) {
  const Sum g = Decayed(gradient, s.decay, p);
  const float share = s.r2 * g.value;
  const float share_rest = std::fma(s.r2, g.rest, std::fma(s.r2, g.value, -share));
  Sum v = AddProducts(s.b2, states[1], share, g.value);
  v.rest = std::fma(share, g.rest, std::fma(share_rest, g.value, v.rest));
  Sum m = AddProducts(s.b1, states[0], s.r1, g.value);
  m.rest = std::fma(s.r1, g.rest, m.rest);
  states[0] = Rounded(m);
  states[1] = Rounded(v);
  p = p - Rounded(QuotientByRoot(s.a, m, v, s.e));
}

void Momentum(const Scalars& s, float gradient, float& p, float* states, bool nesterov) {
  const Sum g = Decayed(gradient, s.decay, p);
  Sum m = AddProduct(g.value, s.b1, states[0]);
  m.rest = m.rest + g.rest;
  states[0] = Rounded(m);
  Sum step = m;
  if (nesterov) {
    step = AddProduct(g.value, s.b1, m.value);
    step.rest = std::fma(s.b1, m.rest, step.rest + g.rest);
  }
  p = p - Rounded(Product(s.rate, step));
}

void Lion(const Scalars& s, float g, float& p, float* states) {
  const Sum step = AddProduct(plain::SignForLion(s, g, states[0]), s.decay, p);
  p = p - Rounded(Product(s.rate, step));
  states[0] = s.b2 * states[0] + s.r2 * g;
}

void Adagrad(const Scalars& s, float gradient, float& p, float* states) {
  const Sum g = Decayed(gradient, s.decay, p);
  Sum squares = AddProduct(states[0], g.value, g.value);
  squares.rest = std::fma(g.value + g.value, g.rest, squares.rest);
  states[0] = Rounded(squares);
  p = p - Rounded(QuotientByRoot(s.rate, g, squares, s.eps));
}

}  // namespace exact

}  // namespace

void ApplyReference(OptimizerKind kind,
                    bool is_fp32,
                    const KernelScalars& scalars,
                    float gradient,
                    ReferenceElement* element) {
  const Scalars s(scalars);
  float& p = element->p;
  float* const states = element->states;
  switch (kind) {
    case OptimizerKind::kAdam:
      if (is_fp32) return exact::Adam(s, gradient, p, states);
      return plain::Adam(s, gradient, p, states, false);
    case OptimizerKind::kAdamW:
      if (is_fp32) return exact::AdamW(s, gradient, p, states);
      return plain::Adam(s, gradient, p, states, true);
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov: {
      const bool nesterov = kind == OptimizerKind::kNesterov;
      const auto momentum = is_fp32 ? exact::Momentum : plain::Momentum;
      return momentum(s, gradient, p, states, nesterov);
    }
    case OptimizerKind::kLion:
      return (is_fp32 ? exact::Lion : plain::Lion)(s, gradient, p, states);
    case OptimizerKind::kAdagrad:
      return (is_fp32 ? exact::Adagrad : plain::Adagrad)(s, gradient, p, states);
  }
}

}  // namespace sluice::optim
