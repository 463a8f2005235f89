#include "runtime/engine/data/segment.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {

bool Segment::reproducible() const {
  return std::all_of(parts_.tensors.begin(), parts_.tensors.end(), [](const auto& tensor) {
    return static_cast<bool>(tensor->spec.reproduce);
  });
}

std::size_t Segment::FirstTensorReaching(std::uint64_t offset) const {
  const auto& tensors = parts_.tensors;
  const auto found =
      std::partition_point(tensors.begin(), tensors.end(), [offset](const auto& tensor) {
        return tensor->end() <= offset;
      });
  return static_cast<std::size_t>(found - tensors.begin());
}

std::string Segment::NameAt(PageIndex page) const {
  std::string name;
  ForEachTensorIn(page, [&](const TensorInfo& tensor, ByteRange) {
    if (name.empty()) name = tensor.spec.name;
  });
  return name.empty() ? fmt::format("page {} of segment {}", PageWithin(page), parts_.index) : name;
}

absl::StatusOr<std::byte*> Segment::EnsureRange(core::TierIndex tier, MemoryTier& memory) {
  base::MutexLock lock(mutex_);
  std::unique_ptr<MappedRange>& range = ranges_[tier];
  if (range == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(range, memory.ReserveRange(parts_.pages * parts_.page_bytes));
  }
  return range->base();
}

MappedRange& Segment::range(core::TierIndex tier) const {
  base::MutexLock lock(mutex_);
  SLUICE_CHECK(ranges_[tier] != nullptr, "a page is mapped only where a range was reserved");
  return *ranges_[tier];
}

}  // namespace sluice::engine
