#include "bench/store/system/page_buffers.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/status.h"
#include "numa/huge_pages.h"

namespace sluice::bench {
namespace {

using numa::kHugePageBytes;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void Fill(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += kContent.size()) {
    std::memcpy(memory.data() + at, kContent.data(), kContent.size());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageBuffers>> PageBuffers::Create(std::uint32_t count,
                                                                 std::uint64_t bytes_each) {
  auto buffers = std::unique_ptr<PageBuffers>(new PageBuffers(count, bytes_each));
  SLUICE_RETURN_IF_ERROR(buffers->Map());
  Fill({buffers->data_, buffers->bytes()});
  return buffers;
}

absl::Status PageBuffers::Map() {
  // Inaccessible on both sides, so that the mapping stays one of its own, which huge() looks for.
  const std::uint64_t used = RoundUp(bytes(), kHugePageBytes);
  mapped_bytes_ = used + 2 * kHugePageBytes;
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return base::StatusFromErrno(errno, "mmap of the buffers");
  mapping_ = mapping;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = static_cast<std::byte*>(mapping_) + (RoundUp(address + 1, kHugePageBytes) - address);
  if (mprotect(data_, used, PROT_READ | PROT_WRITE) != 0) {
    return base::StatusFromErrno(errno, "mprotect of the buffers");
  }
  // MADV_HUGEPAGE is a wish; huge() tells its outcome.
  madvise(data_, used, MADV_HUGEPAGE);
  return absl::OkStatus();
}

PageBuffers::~PageBuffers() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

bool PageBuffers::huge() const {
  const absl::StatusOr<std::uint64_t> huge =
      numa::HugeMappedBytes({data_, RoundUp(bytes(), kHugePageBytes)});
  return huge.ok() && *huge >= RoundUp(bytes(), kHugePageBytes);
}

}  // namespace sluice::bench
