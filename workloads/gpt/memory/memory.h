#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/op.h"
#include "sluice/tensor.h"
#include "sluice/units.h"

namespace sluice {
class Runtime;
}

namespace sluice::gpt {

/// The bytes of one op, in the order of its accesses. They are valid during its compute function
/// only.
class OpBuffers {
 public:
  virtual ~OpBuffers() = default;
  /// The access's range as one piece. REQUIRES: Access::contiguous.
  virtual std::span<std::byte> Contiguous(std::size_t access) const = 0;
  /// The access's range in pieces.
  virtual std::span<const std::span<std::byte>> Spans(std::size_t access) const = 0;

  float* Floats(std::size_t access) const {
    return reinterpret_cast<float*>(Contiguous(access).data());
  }
};

/// One step of work: its accesses, its function, and the content that is dead afterwards.
struct OpSpec {
  std::string name;
  std::string lane = "gpu";
  std::vector<Access> accesses;
  /// The op's function. It may run after Run returns, but before that of any later op. It reads
  /// host state (loss, gradient norm) when it runs, not when it is built.
  std::function<void(const OpBuffers&)> compute;
  /// Whether the op, run again within the iteration on the same input, overwrites with the same
  /// content.
  bool repeatable = false;
  /// Ranges whose content nobody needs after this op.
  std::vector<std::pair<TensorId, ByteRange>> discards;
};

/// An op as it ran, stalls excluded.
struct OpTiming {
  std::string name;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};
using OpObserver = std::function<void(const OpTiming&)>;

/// Memory of the workload's tensors. Threads: externally synchronised.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Creates tensors that share a segment.
  virtual absl::StatusOr<std::vector<TensorId>> CreateTensors(
      std::span<const TensorSpec> specs) = 0;
  virtual absl::Status BeginIteration(std::string_view key) = 0;
  virtual absl::Status EndIteration() = 0;
  /// Runs an op, or asks for its tensors and runs it while the next op is being asked for.
  virtual absl::Status Run(OpSpec op) = 0;
  /// Runs the op that is left.
  virtual absl::Status Flush() = 0;
  /// Gives up the op that is left and the iteration, after an error or in its place.
  virtual void Abandon() {}
  /// Sets the observer that is called after every op. Lifetime: until replaced.
  virtual void SetObserver(OpObserver observer) = 0;
  /// The Runtime that pages the tensors; null when none does.
  virtual Runtime* runtime() { return nullptr; }
  /// The unit in which tensors are paged; 0 when none are.
  virtual Bytes page_bytes() const { return Bytes(0); }
  /// Seconds that Run and Flush have waited for pages so far.
  virtual double stall_seconds() const { return 0; }
};

}  // namespace sluice::gpt
