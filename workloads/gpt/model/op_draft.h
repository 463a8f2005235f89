#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/gpt/memory/memory.h"

namespace sluice::gpt {

/// Collects the accesses of an op. Each method that adds an access returns its index, by which the
/// compute function finds its bytes.
class OpDraft {
 public:
  explicit OpDraft(std::string name) { op_.name = std::move(name); }

  std::size_t Read(TensorId tensor) { return Add({.tensor = tensor, .mode = AccessMode::kRead}); }
  std::size_t Overwrite(TensorId tensor) {
    return Add({.tensor = tensor, .mode = AccessMode::kOverwrite});
  }
  std::size_t Update(TensorId tensor) {
    return Add({.tensor = tensor, .mode = AccessMode::kReadWrite});
  }
  std::size_t Add(const Access& access) {
    op_.accesses.push_back(access);
    return op_.accesses.size() - 1;
  }
  /// Discards the tensor's content after the op.
  void Discard(TensorId tensor) { op_.discards.emplace_back(tensor, kWholeTensor); }
  void SetRepeatable() { op_.repeatable = true; }
  void SetLane(std::string lane) { op_.lane = std::move(lane); }

  OpSpec Finish(std::function<void(const OpBuffers&)> compute) {
    op_.compute = std::move(compute);
    return std::move(op_);
  }

 private:
  OpSpec op_;
};

}  // namespace sluice::gpt
