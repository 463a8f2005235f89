#include "runtime/optim/step_scalars.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

KernelScalars MakeScalars(const GroupRates& rates, std::int64_t step, double grad_scale) {
  KernelScalars scalars{.learning_rate = rates.learning_rate,
                        .beta1 = RoundedBeta(rates.beta1),
                        .beta2 = RoundedBeta(rates.beta2),
                        .eps = rates.eps,
                        .weight_decay = static_cast<float>(rates.weight_decay),
                        .grad_scale = static_cast<float>(grad_scale)};
  scalars.moment1_scale = Correction(scalars.beta1, step);
  scalars.moment2_scale = Correction(scalars.beta2, step);
  return scalars;
}

}  // namespace sluice::optim
