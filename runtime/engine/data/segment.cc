#include "runtime/engine/data/segment.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/views/view_mapping.h"

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
    names_[tier] = std::make_unique<NamedRange>(NamesAt(range->base()));
  }
  return range->base();
}

MappedRange& Segment::range(core::TierIndex tier) const {
  base::MutexLock lock(mutex_);
  SLUICE_CHECK(ranges_[tier] != nullptr, "a page is mapped only where a range was reserved");
  return *ranges_[tier];
}

NamedRange::Facts Segment::NamesAt(const std::byte* base) const {
  NamedRange::Facts facts{.base = base, .bytes = parts_.pages * parts_.page_bytes};
  for (const auto& tensor : parts_.tensors) {
    facts.parts.push_back({tensor->offset, tensor->end(), tensor->spec.name});
  }
  return facts;
}

std::span<std::byte> Segment::ViewOf(PageIndex first, std::uint32_t pages) const {
  SLUICE_CHECK(parts_.view.has_value(), "only a readable segment has a view");
  std::byte* const base = range(*parts_.view).base();
  return {base + PageWithin(first) * parts_.page_bytes, pages * parts_.page_bytes};
}

absl::Status Segment::BeginWrite(PageIndex first, std::uint32_t pages) {
  const base::MutexLock lock(writers_mutex_);
  SLUICE_RETURN_IF_ERROR(Allow(ViewOf(first, pages), numa::MapAccess::kReadWrite));
  for (PageIndex page = first; page < first + pages; ++page) ++writers_[page];
  return absl::OkStatus();
}

void Segment::EndWrite(PageIndex first, std::uint32_t pages) {
  const base::MutexLock lock(writers_mutex_);
  const auto close = [&](PageIndex begin, PageIndex end) {
    if (begin == end) return;
    SLUICE_CHECK(Allow(ViewOf(begin, end - begin), numa::MapAccess::kRead).ok(),
                 "a page is made read-only after its write lease (see vm.max_map_count)");
  };
  PageIndex closed_from = first;
  for (PageIndex page = first; page < first + pages; ++page) {
    const auto found = writers_.find(page);
    if (--found->second == 0) {
      writers_.erase(found);
    } else {
      close(closed_from, page);
      closed_from = page + 1;
    }
  }
  close(closed_from, first + pages);
}

}  // namespace sluice::engine
