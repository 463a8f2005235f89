#include "bench/step/step_reference.h"

#include "base/status.h"
#include "bench/step/numbers.h"
#include "runtime/optim/kernels/step_scalars.h"

namespace sluice::bench {
absl::StatusOr<std::vector<std::byte>> UpdateInMemory(const ReferenceRun& run) {
  SLUICE_ASSIGN_OR_RETURN(const optim::Kernel kernel, FindKernel(run.spec));
  const std::uint64_t count = run.elements.count;
  const auto size = static_cast<std::size_t>(BytesPerElement(run.spec).parameter);
  std::vector<std::byte> parameters(count * size);
  FillNumbers(Numbers::kParameters, size, run.first_number + run.elements.begin, parameters);
  // Wide enough for any type.
  std::vector<float> states[2] = {std::vector<float>(count), std::vector<float>(count)};
  const std::size_t blocks = (count + optim::kStateBlock - 1) / optim::kStateBlock;
  std::vector<float> scales[2] = {std::vector<float>(blocks), std::vector<float>(blocks)};
  optim::KernelArgs args{.element = run.elements.begin,
                         .count = count,
                         .parameters = parameters.data(),
                         .gradients = run.gradients.data()};
  for (int k = 0; k < 2; ++k) {
    args.states[k] = {.values = states[k].data(), .scales = scales[k].data()};
  }
  for (std::int64_t step = 1; step <= run.steps; ++step) {
    args.scalars = optim::MakeScalars(run.rates, step, 1);
    args.key = {.tensor = run.tensor, .step = static_cast<std::uint64_t>(step)};
    kernel(args);
  }
  return parameters;
}

}  // namespace sluice::bench
