#include "runtime/engine/api/request_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// One page of one access.
struct Touch {
  PageIndex page = 0;
  std::uint32_t access = 0;
};

LeaseDraft DraftOf(const ResolvedAccess& access) {
  const std::uint64_t page_bytes = access.segment->page_bytes();
  const std::uint64_t first = access.begin() / page_bytes;
  const std::uint64_t last = (access.end() - 1) / page_bytes;
  LeaseDraft draft;
  draft.tensor = access.tensor;
  draft.tier_id = access.tier_id;
  draft.tier = access.tier;
  draft.mode = access.mode;
  draft.range = access.range;
  draft.address = access.base == nullptr ? nullptr : access.base + access.begin();
  draft.first_offset = access.begin() % page_bytes;
  draft.first_page = access.segment->parts().first_page + static_cast<PageIndex>(first);
  draft.pages = static_cast<std::uint32_t>(last - first + 1);
  draft.discards = access.discards;
  const bool at_address = access.base != nullptr && access.segment->Shows(access.tier);
  if (at_address && access.mode != AccessMode::kRead) draft.written_view = access.segment;
  return draft;
}

std::vector<Touch> TouchesOf(std::span<const LeaseDraft> drafts) {
  std::vector<Touch> touches;
  for (std::uint32_t i = 0; i < drafts.size(); ++i) {
    for (std::uint32_t page = 0; page < drafts[i].pages; ++page) {
      touches.push_back({drafts[i].first_page + page, i});
    }
  }
  std::stable_sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
    return a.page < b.page;
  });
  return touches;
}

/// The parts of the page that the accesses cover, within the segment, in order of offset.
std::vector<std::pair<std::uint64_t, std::uint64_t>> Covered(
    std::span<const Touch> touches, std::span<const ResolvedAccess> accesses) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  parts.reserve(touches.size());
  for (const Touch& touch : touches) {
    parts.emplace_back(accesses[touch.access].begin(), accesses[touch.access].end());
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// Whether the accesses together cover every byte of the page that belongs to a tensor.
bool CoverPage(std::span<const Touch> touches, std::span<const ResolvedAccess> accesses) {
  const auto parts = Covered(touches, accesses);
  bool covered = true;
  accesses[touches[0].access].segment->ForEachTensorIn(
      touches[0].page, [&](const TensorInfo& tensor, ByteRange range) {
        std::uint64_t reached = tensor.offset + range.offset;
        for (const auto& [begin, end] : parts) {
          if (begin <= reached) reached = std::max(reached, end);
        }
        covered = covered && reached >= tensor.offset + range.offset + range.bytes;
      });
  return covered;
}

core::PageMode ModeOf(std::span<const Touch> touches, std::span<const ResolvedAccess> accesses) {
  bool all_read = true;
  bool all_overwrite = true;
  for (const Touch& touch : touches) {
    all_read = all_read && accesses[touch.access].mode == AccessMode::kRead;
    all_overwrite = all_overwrite && accesses[touch.access].mode == AccessMode::kOverwrite;
  }
  if (all_read) return core::PageMode::kRead;
  const bool overwritten = all_overwrite && CoverPage(touches, accesses);
  return overwritten ? core::PageMode::kOverwrite : core::PageMode::kWrite;
}

absl::StatusOr<core::PageRequest> MergePage(std::span<const Touch> touches,
                                            std::span<const ResolvedAccess> accesses) {
  const ResolvedAccess& first = accesses[touches[0].access];
  core::PageRequest request;
  request.page = touches[0].page;
  request.tier = first.tier;
  for (const Touch& touch : touches) {
    const ResolvedAccess& access = accesses[touch.access];
    request.map = request.map || access.base != nullptr;
    if (access.tier != first.tier) {
      return absl::InvalidArgumentError(
          fmt::format("tensors '{}' and '{}' share a page, which cannot be leased in {} and in {} "
                      "at the same time",
                      first.tensor->spec.name,
                      access.tensor->spec.name,
                      ToString(first.tier_id),
                      ToString(access.tier_id)));
    }
  }
  if (touches.size() > std::numeric_limits<std::uint16_t>::max()) {
    return absl::InvalidArgumentError(
        fmt::format("{} accesses of one request share a page of tensor '{}'; at most 65535 may",
                    touches.size(),
                    first.tensor->spec.name));
  }
  request.leases = static_cast<std::uint16_t>(touches.size());
  request.mode = ModeOf(touches, accesses);
  return request;
}

void FindFirstRequests(TicketDraft* draft) {
  for (LeaseDraft& access : draft->accesses) {
    const auto found = std::lower_bound(
        draft->requests.begin(),
        draft->requests.end(),
        access.first_page,
        [](const core::PageRequest& request, PageIndex page) { return request.page < page; });
    access.first_request = static_cast<std::uint32_t>(found - draft->requests.begin());
  }
}

}  // namespace

absl::StatusOr<TicketDraft> DraftTicket(std::span<const ResolvedAccess> accesses) {
  TicketDraft draft;
  draft.accesses.reserve(accesses.size());
  for (const ResolvedAccess& access : accesses) draft.accesses.push_back(DraftOf(access));
  const std::vector<Touch> touches = TouchesOf(draft.accesses);
  draft.requests.reserve(touches.size());
  for (std::size_t begin = 0; begin < touches.size();) {
    std::size_t end = begin + 1;
    while (end < touches.size() && touches[end].page == touches[begin].page) ++end;
    SLUICE_ASSIGN_OR_RETURN(const core::PageRequest request,
                            MergePage(std::span(touches).subspan(begin, end - begin), accesses));
    draft.requests.push_back(request);
    begin = end;
  }
  FindFirstRequests(&draft);
  return draft;
}

}  // namespace sluice::engine
