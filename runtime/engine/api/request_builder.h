#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/events.h"
#include "runtime/engine/api/tensor_table.h"
#include "sluice/tensor.h"
#include "sluice/tier.h"

namespace sluice::engine {

/// One lease to be, without its frames.
struct LeaseDraft {
  std::shared_ptr<TensorInfo> tensor;
  TierId tier_id;
  core::TierIndex tier = 0;
  AccessMode mode = AccessMode::kRead;
  ByteRange range;                 ///< bytes within the tensor
  std::byte* address = nullptr;    ///< address of the range's first byte; null when not contiguous
  std::uint64_t first_offset = 0;  ///< offset of the range's first byte within its first page
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  /// Index of the request of the first page; the other pages follow.
  std::uint32_t first_request = 0;
  /// Segment whose view the lease writes; empty: the lease writes no view.
  std::weak_ptr<Segment> written_view;
  std::uint64_t discards = 0;  ///< discards of the tensor at the time of the request
};

/// An AcquireAll in the core's terms. Requests are in order of page.
struct TicketDraft {
  std::vector<LeaseDraft> accesses;
  std::vector<core::PageRequest> requests;
};

/// Splits accesses into pages and merges those of the same page. A page counts as overwritten if
/// overwrite accesses alone ask for it and cover all its bytes that belong to tensors.
/// Errors: InvalidArgument (one page in two tiers: names both tensors).
absl::StatusOr<TicketDraft> DraftTicket(std::span<const ResolvedAccess> accesses);

}  // namespace sluice::engine
