#include "base/status.h"
#include "bench/device/gemm_loop.h"
#include "runtime/device/cuda/driver_api.h"

namespace sluice::bench {

absl::StatusOr<std::unique_ptr<Gemm>> MakeCudaGemm(const std::string& /*gpu*/) {
  return device::LoadCudaApi().status();
}

}  // namespace sluice::bench
