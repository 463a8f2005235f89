#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "runtime/device/cuda/cuda_api.h"

namespace sluice::device {

/// Makes a status of each result of a call, and remembers the first error after which the GPU does
/// not answer any more. Such an error may belong to any work that ran before, even a user's kernel.
/// Threads: any.
class CudaHealth {
 public:
  /// `api` outlives the object.
  explicit CudaHealth(const CudaApi& api) : api_(api) {}

  /// Makes a status of the result. Errors:
  /// - ResourceExhausted: memory
  /// - FailedPrecondition: a graph is being captured
  /// - Unimplemented: the driver lacks the call
  /// - InvalidArgument: a stream or event that is not there
  /// - Internal: any other after which the GPU goes on
  /// - Unavailable: the GPU is dead, with the first call that said so
  absl::Status Check(CudaCode code, std::string_view call);
  /// The error of a dead GPU, else ok.
  absl::Status status() const;
  bool dead() const { return !status().ok(); }

 private:
  absl::Status Describe(CudaCode code, std::string_view call) const;

  const CudaApi& api_;
  mutable base::Mutex mutex_;
  absl::Status dead_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::device
