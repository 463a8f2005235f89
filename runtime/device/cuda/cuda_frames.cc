#include "runtime/device/cuda/cuda_frames.h"

#include "absl/memory/memory.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::device {

absl::StatusOr<std::unique_ptr<CudaFrames>> CudaFrames::Create(const CudaContextShare& share,
                                                               std::uint64_t page_bytes,
                                                               std::uint32_t frames) {
  auto made = absl::WrapUnique(new CudaFrames(share, page_bytes, frames));
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  SLUICE_RETURN_IF_ERROR(share.Check(
      share.api().ReserveAddresses(frames * page_bytes, &made->base_), "cuMemAddressReserve"));
  SLUICE_RETURN_IF_ERROR(made->Grow(frames));
  return made;
}

CudaFrames::~CudaFrames() {
  if (base_ == nullptr || share_.health().dead()) return;
  const ScopedCudaContext current(share_);
  if (current.status().ok() && Shrink(0).ok()) {
    // Addresses that the driver keeps hold no memory.
    share_
        .Check(share_.api().FreeAddresses(base_, memory_.size() * page_bytes_), "cuMemAddressFree")
        .IgnoreError();
  }
}

absl::StatusOr<std::uint32_t> CudaFrames::Resize(std::uint32_t frames) {
  if (frames > memory_.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} frames are more than the {} of its creation", frames, memory_.size()));
  }
  const ScopedCudaContext current(share_);
  SLUICE_RETURN_IF_ERROR(current.status());
  SLUICE_RETURN_IF_ERROR(frames < count() ? Shrink(frames) : Grow(frames));
  return count();
}

absl::Status CudaFrames::Grow(std::uint32_t frames) {
  for (std::uint32_t frame = count(); frame < frames; ++frame) {
    const absl::Status added = Add(frame);
    if (absl::IsResourceExhausted(added)) return TooLittle(added, frames);
    SLUICE_RETURN_IF_ERROR(added);
    count_.store(frame + 1, std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::Status CudaFrames::Shrink(std::uint32_t frames) {
  while (count() > frames) {
    const std::uint32_t last = count() - 1;
    count_.store(last, std::memory_order_release);
    SLUICE_RETURN_IF_ERROR(Remove(last));
  }
  return absl::OkStatus();
}

absl::Status CudaFrames::Add(std::uint32_t frame) {
  CudaApi& api = share_.api();
  CudaMemory& memory = memory_[frame];
  std::byte* const address = Frame(frame).data();
  SLUICE_RETURN_IF_ERROR(
      share_.Check(api.CreateMemory(share_.ordinal(), page_bytes_, &memory), "cuMemCreate"));
  absl::Status status = share_.Check(api.MapMemory(address, page_bytes_, memory), "cuMemMap");
  if (status.ok()) {
    status =
        share_.Check(api.AllowAccess(address, page_bytes_, share_.ordinal()), "cuMemSetAccess");
    if (!status.ok()) {
      share_.Check(api.UnmapMemory(address, page_bytes_), "cuMemUnmap").IgnoreError();
    }
  }
  // The first error is the one to tell.
  if (!status.ok()) share_.Check(api.ReleaseMemory(memory), "cuMemRelease").IgnoreError();
  return status;
}

absl::Status CudaFrames::Remove(std::uint32_t frame) {
  absl::Status unmapped =
      share_.Check(share_.api().UnmapMemory(Frame(frame).data(), page_bytes_), "cuMemUnmap");
  if (!unmapped.ok()) {
    count_.store(frame + 1, std::memory_order_release);  // the frame is whole
    return unmapped;
  }
  return share_.Check(share_.api().ReleaseMemory(memory_[frame]), "cuMemRelease");
}

absl::Status CudaFrames::TooLittle(const absl::Status& cause, std::uint32_t frames) const {
  std::uint64_t free = 0;
  std::uint64_t all = 0;
  if (share_.api().FreeMemory(&free, &all) != kCudaSuccess) return cause;
  return absl::ResourceExhaustedError(
      fmt::format("hbm of {} does not fit: {} of the GPU's {} are free, beside {} taken already; "
                  "other programs, "
                  "or a framework's cache in this one, hold the rest ({})",
                  ToString(Bytes(frames * page_bytes_)),
                  ToString(Bytes(free)),
                  ToString(Bytes(all)),
                  ToString(Bytes(count() * page_bytes_)),
                  base::ToStd(cause.message())));
}

}  // namespace sluice::device
