#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/options.h"

namespace sluice::bench {

/// Matrix products, one after another. Threads: one at a time.
class Gemm {
 public:
  virtual ~Gemm() = default;
  /// Returns as a product ends. On a GPU the next one is enqueued by then. Errors: those of the
  /// GPU.
  virtual absl::Status Run() = 0;
};

/// Products on a GPU, on a stream of their own. `gpu`: see CudaOptions::gpu. Errors: those of
/// device::ChooseGpu and of the GPU; FailedPrecondition in a build without CUDA.
absl::StatusOr<std::unique_ptr<Gemm>> MakeCudaGemm(const std::string& gpu);

/// Products on a thread of its own, beside copies. An emulated device computes on one processor of
/// the host. Threads: one.
class GemmLoop {
 public:
  /// Returns once a product has ended. `options`: kind of the device and GPU. Errors: those of Gemm
  /// and base::StartThread.
  static absl::StatusOr<std::unique_ptr<GemmLoop>> Start(const RuntimeOptions& options);
  ~GemmLoop();
  /// Ends the loop, and returns the number of products since Start. Errors: those of Gemm.
  absl::StatusOr<std::uint64_t> Stop();

 private:
  explicit GemmLoop(std::unique_ptr<Gemm> gemm) : gemm_(std::move(gemm)) {}
  void Run();
  void Join();

  std::unique_ptr<Gemm> gemm_;
  std::atomic<bool> stopping_ = false;
  std::uint64_t products_ = 0;  ///< the thread's own until it is joined, as is status_
  absl::Status status_;
  std::thread thread_;
};

}  // namespace sluice::bench
