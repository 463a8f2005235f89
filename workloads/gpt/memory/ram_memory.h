#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "workloads/gpt/memory/memory.h"

namespace sluice::gpt {

/// A Memory with every tensor in ordinary memory on huge pages (MADV_HUGEPAGE), for ever. Paging is
/// compared to it. Ops run at once, discards do nothing.
class RamMemory : public Memory {
 public:
  RamMemory();
  ~RamMemory() override;

  /// Errors: ResourceExhausted (the system gives no memory), InvalidArgument (an empty tensor).
  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs) override;
  absl::Status BeginIteration(std::string_view key) override;
  absl::Status EndIteration() override;
  /// Errors: InvalidArgument (unknown tensor, range beyond its end).
  absl::Status Run(OpSpec op) override;
  absl::Status Flush() override;
  void SetObserver(OpObserver observer) override;

 private:
  class Chunk;
  absl::StatusOr<std::span<std::byte>> Allocate(std::uint64_t bytes);

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::span<std::byte>> tensors_;  ///< index is the tensor's id less 1
  OpObserver observer_;
};

}  // namespace sluice::gpt
