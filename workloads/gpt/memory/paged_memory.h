#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/runtime.h"
#include "workloads/gpt/memory/memory.h"

namespace sluice::gpt {

/// Tensors paged by a Runtime. The next op's pages are asked for before the current one computes.
/// Tensors that a repeatable op overwrites can be made again. Each counts as taking as long for
/// that as the op of that name took last.
/// Errors: those of Runtime and Ticket; after one the op is lost and the rest is undefined.
/// Lifetime: the runtime outlives it.
class PagedMemory : public Memory {
 public:
  explicit PagedMemory(Runtime& runtime) : runtime_(runtime) {}

  absl::StatusOr<std::vector<TensorId>> CreateTensors(std::span<const TensorSpec> specs) override;
  absl::Status BeginIteration(std::string_view key) override;
  absl::Status EndIteration() override;
  absl::Status Run(OpSpec op) override;
  absl::Status Flush() override;
  void Abandon() override;
  void SetObserver(OpObserver observer) override;
  Runtime* runtime() override { return &runtime_; }
  Bytes page_bytes() const override { return runtime_.PageBytes(); }
  double stall_seconds() const override { return stall_seconds_; }

 private:
  struct Asked {
    OpSpec spec;
    Op op;
    Ticket ticket;
  };
  absl::StatusOr<Asked> Ask(OpSpec spec);
  void SetRecomputeSeconds(OpSpec* spec) const;
  absl::Status Execute(Asked asked);

  Runtime& runtime_;
  std::optional<Asked> asked_;
  bool in_iteration_ = false;
  double stall_seconds_ = 0;
  std::map<std::string, double> seconds_;  ///< seconds of the last run of repeatable ops, by name
  OpObserver observer_;
};

}  // namespace sluice::gpt
