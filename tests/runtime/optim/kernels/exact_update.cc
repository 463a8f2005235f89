#include "tests/runtime/optim/kernels/exact_update.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace sluice::optim {
namespace {

double Largest(std::initializer_list<double> terms) {
  double most = 0;
  for (const double term : terms) most = std::max(most, std::abs(term));
  return most;
}

/// A gradient and the largest of the terms it is the sum of.
struct Gradient {
  double value = 0;
  double term = 0;
};

Gradient Decayed(const ExactScalars& s, double g, double p) {
  return {g + s.decay * p, Largest({g, s.decay * p})};
}

/// Sets states[k] = a + b. The terms that b was made of are as large as `part`.
void Add(double a, double b, double part, int k, ExactElement* e) {
  e->states[k] = a + b;
  e->state_terms[k] = Largest({a, b, part, a + b});
}

void Move(double move, std::initializer_list<double> terms, ExactElement* e) {
  e->p -= move;
  e->step_term = Largest({move, Largest(terms)});
}

/// Factor by which cancelled terms exceed the remaining square. A root of it is uncertain in the
/// same degree.
double Cancelled(const ExactElement& e, int k) {
  return e.states[k] > 0 ? e.state_terms[k] / e.states[k] : 1;
}

void Adam(const ExactScalars& s, Gradient g, double decay, ExactElement* e) {
  const double rest1 = 1 - s.beta1, rest2 = 1 - s.beta2;
  Add(s.beta1 * e->states[0], rest1 * g.value, rest1 * g.term, 0, e);
  Add(s.beta2 * e->states[1], rest2 * g.value * g.value, rest2 * g.term * g.term, 1, e);
  const double factor =
      s.rate * s.moment1_scale / (std::sqrt(s.moment2_scale * e->states[1]) + s.eps);
  const double quotient = factor * e->states[0];
  Move(quotient + decay, {factor * e->state_terms[0], quotient * Cancelled(*e, 1), decay}, e);
}

void Momentum(const ExactScalars& s, Gradient g, bool nesterov, ExactElement* e) {
  Add(s.beta1 * e->states[0], g.value, g.term, 0, e);
  const double step = nesterov ? g.value + s.beta1 * e->states[0] : e->states[0];
  Move(s.rate * step, {s.rate * e->state_terms[0], s.rate * g.term}, e);
}

void Lion(const ExactScalars& s, double g, ExactElement* e) {
  const double old = s.beta1 * e->states[0], fresh = (1 - s.beta1) * g;
  const double blend = old + fresh;
  const double largest = Largest({old, fresh});
  e->sign_margin = largest > 0 ? std::abs(blend) / largest : 1;
  const double sign = blend > 0 ? 1 : blend < 0 ? -1 : 0;
  Move(s.rate * (sign + s.decay * e->p), {s.rate * sign, s.rate * s.decay * e->p}, e);
  Add(s.beta2 * e->states[0], (1 - s.beta2) * g, 0, 0, e);
}

void Adagrad(const ExactScalars& s, Gradient g, ExactElement* e) {
  Add(e->states[0], g.value * g.value, g.term * g.term, 0, e);
  const double factor = s.rate / (std::sqrt(e->states[0]) + s.eps);
  const double step = factor * g.value;
  Move(step, {factor * g.term, step * Cancelled(*e, 0)}, e);
}

}  // namespace

ExactScalars ExactScalars::Of(const KernelScalars& s) {
  return {
      s.learning_rate, s.beta1, s.beta2, s.eps, s.weight_decay, s.moment1_scale, s.moment2_scale};
}

ExactScalars ExactScalars::OfStep(OptimizerKind kind, const GroupRates& rates, int t) {
  ExactScalars s{rates.learning_rate, rates.beta1, rates.beta2, rates.eps, rates.weight_decay};
  if (StateCount(kind) == 2) {
    s.moment1_scale = 1 / (1 - std::pow(rates.beta1, t));
    s.moment2_scale = 1 / (1 - std::pow(rates.beta2, t));
  }
  return s;
}

void ExactUpdate(OptimizerKind kind, const ExactScalars& s, double gradient, ExactElement* e) {
  const Gradient plain{gradient, std::abs(gradient)};
  switch (kind) {
    case OptimizerKind::kAdam:
      return Adam(s, Decayed(s, gradient, e->p), 0, e);
    case OptimizerKind::kAdamW:
      return Adam(s, plain, s.rate * s.decay * e->p, e);
    case OptimizerKind::kSgd:
      return Momentum(s, Decayed(s, gradient, e->p), false, e);
    case OptimizerKind::kNesterov:
      return Momentum(s, Decayed(s, gradient, e->p), true, e);
    case OptimizerKind::kLion:
      return Lion(s, gradient, e);
    case OptimizerKind::kAdagrad:
      return Adagrad(s, Decayed(s, gradient, e->p), e);
  }
}

double UlpOf(double term) {
  const auto value = static_cast<float>(term);
  return double{std::nextafter(value, INFINITY)} - double{value};
}

}  // namespace sluice::optim
