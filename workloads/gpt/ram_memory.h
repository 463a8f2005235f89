#pragma once

#include <memory>
#include <vector>

#include "workloads/gpt/memory.h"

namespace sluice::gpt {

/// Every tensor in ordinary memory on huge pages (MADV_HUGEPAGE), for ever: what paging is compared
/// to.
class RamMemory : public Memory {
 public:
  RamMemory();
  ~RamMemory() override;

  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs) override;
  absl::Status BeginIteration(std::string_view key) override;
  absl::Status EndIteration() override;
  absl::Status Run(OpSpec op) override;
  absl::Status Flush() override;
  void SetObserver(OpObserver observer) override;

 private:
  struct Buffer;
  std::vector<std::unique_ptr<Buffer>> buffers_;  ///< index is the tensor's id less 1
  OpObserver observer_;
};

}  // namespace sluice::gpt
