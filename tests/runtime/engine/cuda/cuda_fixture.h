#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice/runtime.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::testing {

/// A small Runtime on the hbm of a fake driver's GPU, with pages of 64 KiB: 8 in hbm, 16 in dram,
/// 128 in nvme. It checks at its end that no object of the driver is left.
class CudaRuntimeFixture {
 public:
  static constexpr std::uint64_t kPage = 64 << 10;
  static constexpr std::uint32_t kHbmPages = 8;

  explicit CudaRuntimeFixture(FakeCudaOptions fake = SmallPages());
  ~CudaRuntimeFixture();

  static FakeCudaOptions SmallPages();

  FakeCuda& fake() { return *fake_; }
  RuntimeFixture& runtime() { return runtime_; }
  Runtime* operator->() { return runtime_.operator->(); }

  /// Adds to each byte of the tensor by a kernel on `stream`, under a lease in hbm that the work
  /// keeps. Errors: those of the Runtime.
  absl::Status Add(TensorId tensor, std::uint8_t value, StreamRef& stream);
  /// The tensor's bytes by way of dram. Errors: likewise.
  absl::StatusOr<std::vector<std::byte>> Bytes(TensorId tensor);

  /// The stream that `Add` works on.
  device::CudaStream user_stream() const { return user_stream_; }

 private:
  std::unique_ptr<FakeCuda> fake_;
  device::CudaContext context_ = nullptr;
  device::CudaStream user_stream_ = nullptr;
  RuntimeFixture runtime_;
};

}  // namespace sluice::testing

namespace sluice {

/// Bytes of a page in the tests on CudaRuntimeFixture.
inline constexpr std::uint64_t kGpuPage = testing::CudaRuntimeFixture::kPage;

}  // namespace sluice
