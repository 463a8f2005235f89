#include "runtime/optim/adamw.h"

#include "base/check.h"
#include "runtime/optim/step_scalars.h"

namespace sluice::optim {

AdamWParams MakeAdamWParams(const AdamWOptions& options,
                            std::int64_t update,
                            double learning_rate,
                            double weight_decay,
                            double grad_scale) {
  return MakeScalars({.learning_rate = learning_rate,
                      .beta1 = options.beta1,
                      .beta2 = options.beta2,
                      .eps = options.eps,
                      .weight_decay = weight_decay},
                     update,
                     grad_scale);
}

Kernel AdamWKernel(StateType states) {
  const absl::StatusOr<Kernel> kernel = FindKernel({.state = states});
  SLUICE_CHECK(kernel.ok(), "every processor has the kernels of AdamW");
  return *kernel;
}

void AdamWStep(const AdamWParams& params,
               std::span<float> p,
               std::span<const float> g,
               std::span<float> m,
               std::span<float> v) {
  SLUICE_CHECK(p.size() == g.size() && p.size() == m.size() && p.size() == v.size(),
               "parameters, gradients and moments have one size");
  AdamWKernel(StateType::kFp32)({.scalars = params,
                                 .count = p.size(),
                                 .parameters = p.data(),
                                 .gradients = g.data(),
                                 .states = {{.values = m.data()}, {.values = v.data()}}});
}

}  // namespace sluice::optim
