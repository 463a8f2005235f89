#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"

namespace sluice::device {

/// Events that are used again and again. Threads: externally synchronised, the context current.
class CudaEventPool {
 public:
  /// `share` outlives the pool.
  explicit CudaEventPool(const CudaContextShare& share) : share_(share) {}
  ~CudaEventPool() { Clear(); }
  CudaEventPool(const CudaEventPool&) = delete;
  CudaEventPool& operator=(const CudaEventPool&) = delete;

  /// An event recorded on the stream behind all earlier work. Errors: those of CudaHealth::Check.
  absl::StatusOr<CudaEvent> Record(CudaStream stream);
  /// Whether the work before the event is done. Errors: those of CudaHealth::Check.
  absl::StatusOr<bool> IsDone(CudaEvent event);
  /// Frees the event for the next record.
  void Return(CudaEvent event) { free_.push_back(event); }
  /// Destroys the events that are free.
  void Clear();

 private:
  const CudaContextShare& share_;
  std::vector<CudaEvent> free_;
};

}  // namespace sluice::device
