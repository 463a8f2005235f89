#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/device/cuda/cuda_api.h"
#include "tests/support/cuda/gpu/fake_flag.h"

namespace sluice::testing {

/// Life and death of a context. After a sticky error its streams run nothing more, and every call
/// gives that error.
class FakeFate {
 public:
  static constexpr int kGates = 8;

  device::CudaCode error() const { return error_.load(std::memory_order_relaxed); }

  void Kill(device::CudaCode code) {
    device::CudaCode none = device::kCudaSuccess;
    error_.compare_exchange_strong(none, code, std::memory_order_relaxed);
    for (FakeGate& gate : gates_) {
      gate.OpenForever();
    }
  }

  FakeGate& gate(int index) { return gates_.at(static_cast<std::size_t>(index)); }

  /// Lets the nth piece of work from now on end with the code.
  void FailWork(std::int64_t nth, device::CudaCode code) {
    work_code_.store(code, std::memory_order_relaxed);
    work_left_.store(nth, std::memory_order_relaxed);
  }
  /// Error of the piece of work that starts now.
  device::CudaCode StartWork() {
    if (work_left_.load(std::memory_order_relaxed) <= 0 ||
        work_left_.fetch_sub(1, std::memory_order_relaxed) != 1) {
      return device::kCudaSuccess;
    }
    return work_code_.load(std::memory_order_relaxed);
  }
  void EndWork() { ended_.fetch_add(1, std::memory_order_relaxed); }
  /// Pieces of work that ended. A reader of the number is ordered behind none of them.
  std::uint64_t ended_work() const { return ended_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<device::CudaCode> error_{device::kCudaSuccess};
  std::array<FakeGate, kGates> gates_;
  std::atomic<std::int64_t> work_left_{0};
  std::atomic<device::CudaCode> work_code_{device::kCudaSuccess};
};

}  // namespace sluice::testing
