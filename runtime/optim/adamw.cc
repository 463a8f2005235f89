#include "runtime/optim/adamw.h"

#include <cmath>

#include "base/check.h"

namespace sluice::optim {

AdamWParams MakeAdamWParams(const AdamWOptions& options,
                            std::int64_t update,
                            double learning_rate,
                            double weight_decay,
                            double grad_scale) {
  const auto t = static_cast<double>(update);
  return {.learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .eps = static_cast<float>(options.eps),
          .weight_decay = static_cast<float>(weight_decay),
          .grad_scale = static_cast<float>(grad_scale),
          .moment1_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, t))),
          .moment2_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta2, t)))};
}

void AdamWStep(const AdamWParams& params,
               std::span<float> p,
               std::span<const float> g,
               std::span<float> m,
               std::span<float> v) {
  SLUICE_CHECK(p.size() == g.size() && p.size() == m.size() && p.size() == v.size(),
               "parameters, gradients and moments have one size");
  const absl::StatusOr<Kernel> kernel = FindKernel({});
  SLUICE_CHECK(kernel.ok(), "every processor has a kernel for fp32");
  (*kernel)({.scalars = params,
             .count = p.size(),
             .parameters = p.data(),
             .gradients = g.data(),
             .states = {{.values = m.data()}, {.values = v.data()}}});
}

}  // namespace sluice::optim
