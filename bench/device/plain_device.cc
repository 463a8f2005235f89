#include "bench/device/plain_device.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver_api.h"
#include "runtime/device/emulated_device.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kSideBytes = std::uint64_t{128} << 20;

std::uint32_t PagesOf(std::uint64_t page_bytes) {
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(4, kSideBytes / page_bytes));
}

absl::StatusOr<std::unique_ptr<device::Device>> MakeEmulated(const RuntimeOptions& options) {
  const std::uint64_t page_bytes = options.page_bytes.count();
  return device::EmulatedDevice::Create(
      {.page_bytes = page_bytes, .frames = PagesOf(page_bytes), .cpus = options.cpus});
}

absl::StatusOr<std::unique_ptr<device::Device>> MakeCuda(const RuntimeOptions& options,
                                                         device::CudaApi& cuda) {
  const std::uint64_t page_bytes = options.page_bytes.count();
  SLUICE_ASSIGN_OR_RETURN(const int ordinal, device::ChooseGpu(cuda, options.cuda.gpu));
  return device::MakeCudaDevice(cuda,
                                {.ordinal = ordinal,
                                 .page_bytes = page_bytes,
                                 .frames = PagesOf(page_bytes),
                                 .cpus = options.cpus});
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlainDevice>> PlainDevice::Create(const RuntimeOptions& options) {
  auto plain = absl::WrapUnique(new PlainDevice());
  const std::uint64_t page_bytes = options.page_bytes.count();
  SLUICE_ASSIGN_OR_RETURN(
      plain->host_,
      numa::Arena::Create(
          {.name = "bench", .page_bytes = page_bytes, .frames = PagesOf(page_bytes)}));
  if (options.device == DeviceKind::kEmulated) {
    SLUICE_ASSIGN_OR_RETURN(plain->device_, MakeEmulated(options));
  } else {
    SLUICE_ASSIGN_OR_RETURN(plain->cuda_, device::LoadCudaApi());
    SLUICE_ASSIGN_OR_RETURN(plain->device_, MakeCuda(options, *plain->cuda_));
  }
  const std::uint64_t bytes = plain->host_->frame_count() * page_bytes;
  SLUICE_RETURN_IF_ERROR(plain->device_->RegisterHost({plain->host_->Frame(0).data(), bytes}));
  return plain;
}

absl::StatusOr<device::CopyRates> PlainDevice::Rates(std::uint32_t milliseconds) {
  device::DeviceCopyOptions copies{.milliseconds = milliseconds};
  copies.frames.resize(device_->frame_count());
  std::iota(copies.frames.begin(), copies.frames.end(), 0U);
  for (const std::uint32_t frame : copies.frames) copies.host.push_back(host_->Frame(frame));
  return device::MeasureCopyRates(*device_, copies);
}

absl::StatusOr<double> PlainDevice::SecondsOfOneCopyIn() {
  using Clock = std::chrono::steady_clock;
  std::promise<absl::Status> done;
  const Clock::time_point start = Clock::now();
  device_->CopyIn(
      host_->Frame(0), 0, [&](absl::Status status) { done.set_value(std::move(status)); });
  SLUICE_RETURN_IF_ERROR(done.get_future().get());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace sluice::bench
