#include "runtime/device/cuda/cuda_range.h"

#include "absl/memory/memory.h"
#include "base/status.h"

namespace sluice::device {

absl::StatusOr<std::unique_ptr<CudaRange>> CudaRange::Reserve(const CudaContextShare& share,
                                                              std::uint64_t page_bytes,
                                                              std::uint64_t bytes) {
  const std::uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
  auto range = absl::WrapUnique(new CudaRange(share, page_bytes, pages));
  const ScopedCudaContext current(share);
  SLUICE_RETURN_IF_ERROR(current.status());
  SLUICE_RETURN_IF_ERROR(share.Check(
      share.api().ReserveAddresses(pages * page_bytes, &range->base_), "cuMemAddressReserve"));
  return range;
}

CudaRange::~CudaRange() {
  if (base_ == nullptr || share_.health().dead()) return;
  const ScopedCudaContext current(share_);
  base::MutexLock lock(mutex_);
  bool free = current.status().ok();
  for (std::uint64_t page = 0; free && page < pages_.size(); ++page) {
    free = UnmapLocked(page).ok();
  }
  if (!free) return;
  // Addresses that the driver keeps hold no memory.
  share_.Check(share_.api().FreeAddresses(base_, bytes_), "cuMemAddressFree").IgnoreError();
}

absl::Status CudaRange::Map(std::uint64_t page, CudaMemory memory) {
  const ScopedCudaContext current(share_);
  SLUICE_RETURN_IF_ERROR(current.status());
  base::MutexLock lock(mutex_);
  SLUICE_RETURN_IF_ERROR(UnmapLocked(page));
  CudaApi& api = share_.api();
  SLUICE_RETURN_IF_ERROR(
      share_.Check(api.MapMemory(AddressOf(page), page_bytes_, memory), "cuMemMap"));
  pages_[page] = true;
  absl::Status allowed = share_.Check(
      api.AllowAccess(AddressOf(page), page_bytes_, share_.ordinal()), "cuMemSetAccess");
  if (!allowed.ok()) UnmapLocked(page).IgnoreError();
  return allowed;
}

absl::Status CudaRange::Unmap(std::uint64_t page) {
  const ScopedCudaContext current(share_);
  SLUICE_RETURN_IF_ERROR(current.status());
  base::MutexLock lock(mutex_);
  return UnmapLocked(page);
}

absl::Status CudaRange::UnmapLocked(std::uint64_t page) {
  if (!pages_[page]) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(
      share_.Check(share_.api().UnmapMemory(AddressOf(page), page_bytes_), "cuMemUnmap"));
  pages_[page] = false;
  return absl::OkStatus();
}

}  // namespace sluice::device
