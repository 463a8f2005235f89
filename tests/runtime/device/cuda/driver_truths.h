#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/gpu_session.h"
#include "tests/support/cuda/cuda_lab.h"

namespace sluice::testing {

/// A driver for which the truths hold: the fake one in every run of the tests, the real one if
/// there is a GPU.
struct DriverUnderTest {
  std::string name;
  std::function<std::unique_ptr<CudaLab>()> make;
};

/// Properties of drivers that the CUDA device relies on. Most were measured (docs/results/h200.md);
/// the others are CUDA's documentation.
class CudaTruthTest : public ::testing::TestWithParam<DriverUnderTest> {
 protected:
  CudaTruthTest() : lab_(GetParam().make()), gpu_(std::make_unique<GpuSession>(*lab_)) {}

  CudaLab& lab() { return *lab_; }
  device::CudaApi& api() { return lab_->api(); }
  GpuSession& gpu() { return *gpu_; }

  /// Records the event on the stream and says whether it is ready; used behind a closed gate.
  device::CudaCode QueryAfter(device::CudaStream stream);
  /// Queries the event until it is ready, or gives an error.
  device::CudaCode AwaitEvent(device::CudaEvent event);

 private:
  std::unique_ptr<CudaLab> lab_;
  std::unique_ptr<GpuSession> gpu_;
};

/// Truths that end the context: on hardware each needs a process of its own.
class CudaFatalTruthTest : public CudaTruthTest {};

/// Opens a gate after a while, from a thread of its own.
class LateOpener {
 public:
  LateOpener(CudaLab& lab, int gate);
  ~LateOpener() { thread_.join(); }

  /// Whether the gate is open, or about to be.
  bool opened() const { return opened_.load(); }

 private:
  std::atomic<bool> opened_{false};
  std::thread thread_;
};

/// Runs the body on another thread, with the GPU's context current there.
void OnAnotherThread(device::CudaApi& api, const std::function<void()>& body);

}  // namespace sluice::testing
