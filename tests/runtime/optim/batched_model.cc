#include "tests/runtime/optim/batched_model.h"

#include <algorithm>

#include "tests/support/status_matchers.h"

namespace sluice::optim {

using sluice::testing::HasCode;
using sluice::testing::IsOk;
using sluice::testing::RuntimeFixture;

BatchedModel::BatchedModel(const OptimizerOptions& optimizer, const KernelSpec& spec)
    : clip_norm_(optimizer.clip_norm) {
  constexpr std::size_t kElements = kParts * RuntimeFixture::kPage / sizeof(float) - 200;
  runtime.options.dram_bytes = Bytes(256 * RuntimeFixture::kPage);
  runtime.hooks.wrap_store = [this](auto store) { return faults.Wrap(std::move(store)); };
  runtime.Start();
  model_.emplace(runtime,
                 PagedModel::Options{.spec = spec,
                                     .groups = {std::vector(kFirstGroup, kElements),
                                                std::vector(kParameters - kFirstGroup, kElements)},
                                     .optimizer = optimizer});
}

void BatchedModel::ReferenceStep(std::int64_t step) {
  const double norm = model_->GradientNorm();
  model_->ReferenceStep(step, clip_norm_ > 0 && norm > clip_norm_ ? clip_norm_ / norm : 1);
}

void BatchedModel::Train(std::int64_t step) {
  SetGradients(step);
  ASSERT_THAT(model_->Step(), IsOk());
  ReferenceStep(step);
}

std::uint64_t BatchedModel::ExpectOldOrNew(const std::vector<std::vector<std::byte>>& before,
                                           absl::StatusCode why) {
  auto expected = model_->Reference();
  const std::size_t tensors = expected.size() / kParameters;
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].empty()) continue;  // no copy
    const ParameterState state = optimizer().State(model_->parameter(i / tensors)).value();
    for (const ParameterState::Missing& part : state.missing) {
      EXPECT_THAT(part.why, HasCode(why));
      const auto at = static_cast<std::ptrdiff_t>(part.elements.begin * sizeof(float));
      const auto bytes = static_cast<std::ptrdiff_t>(part.elements.count * sizeof(float));
      std::copy_n(before[i].begin() + at, bytes, expected[i].begin() + at);
      if (i % tensors == 0) missing += part.elements.count;
    }
  }
  EXPECT_EQ(model_->Paged(), expected);
  return missing;
}

}  // namespace sluice::optim
