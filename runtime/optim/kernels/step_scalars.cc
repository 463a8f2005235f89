#include "runtime/optim/kernels/step_scalars.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::optim {
namespace {

/// 1 / (1 - beta^step).
double Correction(float beta, std::int64_t step) {
  return 1.0 / (1.0 - std::pow(double{beta}, static_cast<double>(step)));
}

/// The nearest number below 1.
float RoundedBeta(double beta) {
  return std::min(static_cast<float>(beta), std::nextafter(1.0f, 0.0f));
}

/// Divisor of a factor, so that fp32 has room for the quotient. It is 1 if fp32 has room for the
/// factor.
double PowerOf(double factor) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  const bool has_room = factor >= kLeast && factor <= kMost;
  if (has_room || factor == 0 || !std::isfinite(factor)) return 1;
  return std::ldexp(1.0, std::clamp(std::ilogb(factor) / 2, -126, 127));
}

}  // namespace

double ClipFactor(double clip_norm, double norm) {
  return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
}

KernelScalars MakeScalars(const GroupRates& rates, std::int64_t step, double grad_scale) {
  const double power = PowerOf(grad_scale);
  KernelScalars scalars{.learning_rate = rates.learning_rate,
                        .beta1 = RoundedBeta(rates.beta1),
                        .beta2 = RoundedBeta(rates.beta2),
                        .eps = rates.eps,
                        .weight_decay = static_cast<float>(rates.weight_decay),
                        .grad_power = static_cast<float>(power),
                        .grad_scale = static_cast<float>(grad_scale / power)};
  scalars.moment1_scale = Correction(scalars.beta1, step);
  scalars.moment2_scale = Correction(scalars.beta2, step);
  return scalars;
}

}  // namespace sluice::optim
