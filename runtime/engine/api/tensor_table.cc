#include "runtime/engine/api/tensor_table.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

constexpr std::uint64_t kTensorAlignment = 64;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

absl::Status UnknownTensor(TensorId id) {
  return absl::InvalidArgumentError(fmt::format("there is no tensor with id {}", id.value));
}

/// Whether all bytes of `page` that belong to a tensor are within `range` of `tensor`.
bool CoversPage(const Segment& segment, const TensorInfo& tensor, ByteRange range, PageIndex page) {
  bool covered = true;
  segment.ForEachTensorIn(page, [&](const TensorInfo& other, ByteRange part) {
    covered = covered && &other == &tensor && range.offset <= part.offset &&
              part.offset + part.bytes <= range.offset + range.bytes;
  });
  return covered;
}

void AppendPage(std::vector<PageRun>* runs, PageIndex page) {
  if (!runs->empty() && runs->back().first + runs->back().pages == page) {
    ++runs->back().pages;
  } else {
    runs->push_back({page, 1});
  }
}

}  // namespace

bool IsReadOnly(std::span<const TensorSpec> specs) {
  const TensorSpec& first = specs.front();
  return !first.joined.empty() || (first.file && first.file->read_only);
}

std::uint64_t TensorTable::FirstByteInFile(std::span<const TensorSpec> specs) const {
  const std::uint64_t offset = specs.front().file->offset;
  return IsReadOnly(specs) ? offset / page_bytes_ * page_bytes_ : offset;
}

absl::StatusOr<ByteRange> CutRange(const TensorInfo& tensor, ByteRange range) {
  if (range == kWholeTensor) return ByteRange{0, tensor.bytes};
  if (range.bytes > 0 && range.offset < tensor.bytes &&
      range.bytes <= tensor.bytes - range.offset) {
    return range;
  }
  return absl::InvalidArgumentError(
      fmt::format("tensor '{}' has {} bytes; {} bytes from offset {} are not a range of it",
                  tensor.spec.name,
                  tensor.bytes,
                  range.bytes,
                  range.offset));
}

absl::StatusOr<std::shared_ptr<Segment>> TensorTable::Prepare(std::span<const TensorSpec> specs,
                                                              core::TierIndex lowest,
                                                              SegmentHome home,
                                                              std::optional<core::TierIndex> view) {
  Segment::Parts parts;
  std::uint64_t end = 0;
  base::MutexLock lock(mutex_);
  for (const TensorSpec& spec : specs) {
    auto tensor = std::make_shared<TensorInfo>();
    tensor->id = TensorId{next_id_++};
    tensor->spec = spec;
    tensor->segment = next_segment_;
    tensor->offset = IsReadOnly(specs) && spec.file ? spec.file->offset - FirstByteInFile(specs)
                                                    : RoundUp(end, kTensorAlignment);
    tensor->bytes = SizeOf(spec).count();
    end = tensor->end();
    parts.tensors.push_back(std::move(tensor));
  }
  const std::uint64_t pages = (end + page_bytes_ - 1) / page_bytes_;
  const auto first =
      pages < core::kNoPage ? pages_.Allocate(static_cast<std::uint32_t>(pages)) : std::nullopt;
  if (!first) return absl::ResourceExhaustedError("no page indices are left");
  parts.index = next_segment_++;
  parts.first_page = *first;
  parts.pages = static_cast<std::uint32_t>(pages);
  parts.lowest = lowest;
  parts.page_bytes = page_bytes_;
  parts.file = std::move(home.file);
  parts.joined = std::move(home.joined);
  parts.read_only = IsReadOnly(specs);
  parts.view = view;
  return std::make_shared<Segment>(std::move(parts));
}

void TensorTable::Publish(const std::shared_ptr<Segment>& segment) {
  base::MutexLock lock(mutex_);
  used_pages_ += segment->parts().pages;
  if (segment->readable()) readable_pages_ += segment->parts().pages;
  for (const auto& tensor : segment->parts().tensors) {
    entries_.emplace(tensor->id.value, Entry{tensor, segment});
    tensor_bytes_ += tensor->bytes;
    if (segment->parts().has_home()) SetLive(*tensor, true);
  }
}

void TensorTable::Abandon(const Segment& segment) {
  base::MutexLock lock(mutex_);
  pages_.Free(segment.parts().first_page, segment.parts().pages);
}

std::shared_ptr<TensorInfo> TensorTable::Find(TensorId id) const {
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(id.value);
  return found == entries_.end() ? nullptr : found->second.tensor;
}

std::vector<TensorId> TensorTable::Tensors() const {
  std::vector<TensorId> tensors;
  {
    base::MutexLock lock(mutex_);
    tensors.reserve(entries_.size());
    for (const auto& [id, entry] : entries_) tensors.push_back(TensorId{id});
  }
  std::sort(
      tensors.begin(), tensors.end(), [](TensorId a, TensorId b) { return a.value < b.value; });
  return tensors;
}

absl::StatusOr<ResolvedAccess> TensorTable::ResolveOne(const Access& access,
                                                       const TierSet& tiers) const {
  const auto found = entries_.find(access.tensor.value);
  if (found == entries_.end()) return UnknownTensor(access.tensor);
  const auto& [tensor, segment] = found->second;
  ResolvedAccess resolved{.tensor = tensor, .segment = segment};
  SLUICE_ASSIGN_OR_RETURN(resolved.range, CutRange(*tensor, access.range));
  const TierId wanted = access.tier.value_or(tiers.id(tiers.Fastest()));
  const absl::StatusOr<core::TierIndex> tier = tiers.LeasableIndexOf(wanted);
  if (!tier.ok()) {
    return base::Annotate(tier.status(), fmt::format("access to tensor '{}'", tensor->spec.name));
  }
  if (*tier > segment->parts().lowest) {
    return absl::InvalidArgumentError(fmt::format("tensor '{}' may not reach {}; its lowest is {}",
                                                  tensor->spec.name,
                                                  ToString(wanted),
                                                  ToString(tensor->spec.lowest)));
  }
  if (segment->parts().read_only && access.mode != AccessMode::kRead) {
    return absl::InvalidArgumentError(
        fmt::format("tensor '{}' is only read: its file home is read-only; lease it to "
                    "read, or copy it into a tensor of its own",
                    tensor->spec.name));
  }
  resolved.tier_id = wanted;
  resolved.tier = *tier;
  resolved.mode = access.mode;
  resolved.discards = tensor->discards;
  resolved.recompute_seconds = access.recompute_seconds;
  if (access.contiguous) {
    SLUICE_ASSIGN_OR_RETURN(resolved.base, segment->EnsureRange(*tier, *tiers.memory(*tier)));
  }
  return resolved;
}

absl::StatusOr<std::vector<ResolvedAccess>> TensorTable::Resolve(std::span<const Access> accesses,
                                                                 const TierSet& tiers) const {
  std::vector<ResolvedAccess> resolved;
  resolved.reserve(accesses.size());
  base::MutexLock lock(mutex_);
  if (closed_) return absl::CancelledError("the runtime has shut down");
  for (const Access& access : accesses) {
    SLUICE_ASSIGN_OR_RETURN(ResolvedAccess one, ResolveOne(access, tiers));
    resolved.push_back(std::move(one));
  }
  return resolved;
}

std::vector<PageRun> TensorTable::WholePages(const Segment& segment,
                                             const TensorInfo& tensor,
                                             ByteRange range) const {
  std::vector<PageRun> runs;
  const std::uint64_t begin = tensor.offset + range.offset;
  const std::uint64_t last = (begin + range.bytes - 1) / page_bytes_;
  for (std::uint64_t within = begin / page_bytes_; within <= last; ++within) {
    const auto page = segment.parts().first_page + static_cast<PageIndex>(within);
    if (CoversPage(segment, tensor, range, page)) AppendPage(&runs, page);
  }
  return runs;
}

absl::StatusOr<TensorTable::Freed> TensorTable::Free(TensorId id) {
  base::MutexLock lock(mutex_);
  if (closed_) return absl::CancelledError("the runtime has shut down");
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) {
    return absl::NotFoundError(fmt::format("there is no tensor with id {}", id.value));
  }
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  Freed freed{entry.tensor, WholePages(*entry.segment, *entry.tensor, {0, entry.tensor->bytes})};
  SetLive(*entry.tensor, false);
  entry.tensor->alive = false;
  tensor_bytes_ -= entry.tensor->bytes;
  for (const PageRun& run : freed.runs) {
    used_pages_ -= run.pages;
    if (entry.segment->readable()) readable_pages_ -= run.pages;
  }
  return freed;
}

void TensorTable::OnPagesFreed(PageRun run) {
  base::MutexLock lock(mutex_);
  pages_.Free(run.first, run.pages);
}

absl::StatusOr<TensorTable::Discarded> TensorTable::Discard(TensorId id, ByteRange range) {
  base::MutexLock lock(mutex_);
  if (closed_) return absl::CancelledError("the runtime has shut down");
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) {
    return absl::NotFoundError(fmt::format("there is no tensor with id {}", id.value));
  }
  const Entry& entry = found->second;
  SLUICE_ASSIGN_OR_RETURN(const ByteRange cut, CutRange(*entry.tensor, range));
  if (entry.segment->parts().read_only) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor '{}' is only read, and its content stays: free it", entry.tensor->spec.name));
  }
  if (cut.bytes == entry.tensor->bytes) {
    ++entry.tensor->discards;
    SetLive(*entry.tensor, false);
  }
  return Discarded{entry.tensor, cut, WholePages(*entry.segment, *entry.tensor, cut)};
}

void TensorTable::SetLive(TensorInfo& tensor, bool live) {
  if (tensor.live == live) return;
  tensor.live = live;
  live_ += live ? tensor.bytes : -tensor.bytes;
  peak_ = std::max(peak_, live_);
}

void TensorTable::MarkLive(TensorInfo& tensor, std::uint64_t discards) {
  base::MutexLock lock(mutex_);
  if (tensor.alive && tensor.discards == discards) SetLive(tensor, true);
}

LiveBytes TensorTable::live_bytes() const {
  base::MutexLock lock(mutex_);
  return {live_, peak_, used_pages_ * page_bytes_ - tensor_bytes_};
}

std::uint64_t TensorTable::readable_pages() const {
  base::MutexLock lock(mutex_);
  return readable_pages_;
}

absl::StatusOr<std::span<const std::byte>> TensorTable::AddressIn(core::TierIndex tier,
                                                                  const TierSet& tiers,
                                                                  TensorId id) const {
  base::MutexLock lock(mutex_);
  if (closed_) return absl::CancelledError("the runtime has shut down");
  const auto found = entries_.find(id.value);
  if (found == entries_.end()) {
    return absl::NotFoundError(fmt::format("there is no tensor with id {}", id.value));
  }
  const TensorInfo& tensor = *found->second.tensor;
  SLUICE_ASSIGN_OR_RETURN(const std::byte* base,
                          found->second.segment->EnsureRange(tier, *tiers.memory(tier)));
  return std::span(base + tensor.offset, tensor.bytes);
}

void TensorTable::Close() {
  base::MutexLock lock(mutex_);
  closed_ = true;
  entries_.clear();
}

}  // namespace sluice::engine
