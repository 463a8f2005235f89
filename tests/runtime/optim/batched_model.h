#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/runtime/engine/faulty_store.h"
#include "tests/runtime/optim/paged_model.h"

namespace sluice::optim {

/// A model of which most is paged, though there is room for ops that update several parts: twenty
/// parameters of nine parts, four parts to an op. The first group alone is more than dram holds.
class BatchedModel {
 public:
  static constexpr std::size_t kParameters = 20;
  static constexpr std::size_t kFirstGroup = 14;
  static constexpr std::size_t kParts = 9;  ///< parts of each parameter

  explicit BatchedModel(const OptimizerOptions& optimizer = {}, const KernelSpec& spec = {});

  PagedModel* operator->() { return &*model_; }
  OffloadedOptimizer& optimizer() { return model_->optimizer(); }

  /// Gradients of the step's own, on both sides.
  void SetGradients(std::int64_t step) { model_->SetGradients(static_cast<std::uint64_t>(step)); }
  /// The step in plain memory.
  void ReferenceStep(std::int64_t step);
  /// A step that does not fail, on both sides.
  void Train(std::int64_t step);
  /// Checks that parameters and states are those of the reference. Elements that State lists as
  /// missing, for `why`, must be as in `before`. Returns the number of these. REQUIRES: fp32
  /// everywhere.
  std::uint64_t ExpectOldOrNew(const std::vector<std::vector<std::byte>>& before,
                               absl::StatusCode why);

  sluice::testing::StoreFaults faults;
  sluice::testing::RuntimeFixture runtime;

 private:
  const double clip_norm_;
  std::optional<PagedModel> model_;
};

}  // namespace sluice::optim
