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

}  // namespace

absl::StatusOr<std::unique_ptr<PlainDevice>> PlainDevice::Create(const RuntimeOptions& options) {
  auto plain = absl::WrapUnique(new PlainDevice());
  const std::uint64_t page_bytes = options.page_bytes.count();
  SLUICE_ASSIGN_OR_RETURN(
      plain->host_,
      numa::Arena::Create(
          {.name = "bench", .page_bytes = page_bytes, .frames = PagesOf(page_bytes)}));
  SLUICE_RETURN_IF_ERROR(options.device == DeviceKind::kEmulated ? plain->PrepareEmulated(options)
                                                                 : plain->PrepareCuda(options));
  return plain;
}

absl::Status PlainDevice::PrepareCuda(const RuntimeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(driver_, device::LoadCudaApi());
  SLUICE_ASSIGN_OR_RETURN(const int ordinal, device::ChooseGpu(*driver_, options.cuda.gpu));
  const std::uint64_t page_bytes = options.page_bytes.count();
  SLUICE_ASSIGN_OR_RETURN(
      cuda_,
      PlainCuda::Create(*driver_,
                        {.ordinal = ordinal,
                         .page_bytes = page_bytes,
                         .host = {host_->Frame(0).data(), host_->frame_count() * page_bytes}}));
  return absl::OkStatus();
}

absl::Status PlainDevice::PrepareEmulated(const RuntimeOptions& options) {
  const std::uint64_t page_bytes = options.page_bytes.count();
  SLUICE_ASSIGN_OR_RETURN(
      emulated_,
      device::EmulatedDevice::Create(
          {.page_bytes = page_bytes, .frames = PagesOf(page_bytes), .cpus = options.cpus}));
  return emulated_->RegisterHost({host_->Frame(0).data(), host_->frame_count() * page_bytes});
}

absl::StatusOr<device::CopyRates> PlainDevice::Rates(std::uint32_t milliseconds) {
  if (cuda_ != nullptr) return cuda_->Rates(milliseconds);
  device::DeviceCopyOptions copies{.milliseconds = milliseconds};
  copies.frames.resize(emulated_->frame_count());
  std::iota(copies.frames.begin(), copies.frames.end(), 0U);
  for (const std::uint32_t frame : copies.frames) copies.host.push_back(host_->Frame(frame));
  return device::MeasureCopyRates(*emulated_, copies);
}

absl::StatusOr<double> PlainDevice::SecondsOfOneCopyIn() {
  if (cuda_ != nullptr) return cuda_->SecondsOfOneCopyIn();
  using Clock = std::chrono::steady_clock;
  std::promise<absl::Status> done;
  const Clock::time_point start = Clock::now();
  emulated_->CopyIn(
      host_->Frame(0), 0, [&](absl::Status status) { done.set_value(std::move(status)); });
  SLUICE_RETURN_IF_ERROR(done.get_future().get());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace sluice::bench
