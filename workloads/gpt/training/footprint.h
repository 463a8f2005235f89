#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "sluice/units.h"
#include "workloads/gpt/model/config.h"

namespace sluice::gpt {

/// Demands of a training step and a validation on the memory, found without computing anything.
struct Footprint {
  /// The largest part of an op in one tier: its accesses, rounded to pages, each page once. The ops
  /// of the two tiers may differ.
  Bytes op_hbm_max;
  std::string op_hbm_max_name;
  Bytes op_dram_max;
  std::string op_dram_max_name;
  /// The largest sum of live tensors (written, not yet discarded) within a step, without padding.
  Bytes live_max;
  /// Bytes of all tensors, and bytes that rounding their segments to pages adds.
  Bytes tensors;
  Bytes padding;
  std::int64_t ops_per_step = 0;
  /// Number of pages that the step's ops access, each once per op.
  std::uint64_t page_accesses_per_step = 0;
};

/// Finds the footprint. Errors: InvalidArgument (config).
absl::StatusOr<Footprint> MeasureFootprint(const ModelConfig& model,
                                           const TrainConfig& train,
                                           Bytes page_bytes);

}  // namespace sluice::gpt
