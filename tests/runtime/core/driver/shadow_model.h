#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/events.h"
#include "runtime/core/types.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

/// Stamp of a page's bytes: different stamps are different bytes.
using Stamp = std::uint64_t;
inline constexpr Stamp kZeros = 0;

/// A request of a page that is not over yet.
struct ShadowRequest {
  enum class Kind : std::uint8_t { kAcquire, kDiscard, kFree };
  Kind kind = Kind::kAcquire;
  TicketNumber ticket = 0;
  LaneIndex lane = 0;
  bool nested = false;
  PageMode mode = PageMode::kRead;
  bool granted = false;
  std::uint32_t leases_left = 0;
};

struct ShadowPage {
  bool exists = false;
  SegmentIndex segment = 0;
  TierIndex lowest = 0;
  bool reproducible = false;
  /// The bytes in the page's file home.
  std::optional<Stamp> file;
  /// Content that a read must see.
  Stamp stamp = kZeros;
  bool lost = false;
  std::deque<ShadowRequest> requests;

  bool write_leased() const;
  bool freeing() const;
};

/// Expected content of every page, and its users, kept the naive way: one stamp per page and the
/// list of its requests. Conflicting requests are served in the order of arrival. A nested reader
/// within one of its lane goes before the writers, unless there is a discard.
class ShadowModel {
 public:
  explicit ShadowModel(Verdict* verdict) : verdict_(verdict) {}

  void Create(const CreateSegment& create, const PagesByTier& committed);
  void Remove(PageIndex first_page, std::uint32_t pages);
  void Request(const Acquire& acquire);
  void Discard(PageIndex first_page, std::uint32_t pages);
  void Free(PageIndex first_page, std::uint32_t pages);

  /// Gives the ticket its lease of `request.page`. Checks that no earlier request conflicts, and
  /// changes the stamp if the lease may write.
  void Grant(TicketNumber ticket, const PageRequest& request);
  /// Removes a ticket that will not be granted.
  void Withdraw(TicketNumber ticket, PageIndex page);
  /// Ends one lease of a granted request, which may have written. Returns whether it was the last.
  bool Release(TicketNumber ticket, PageIndex page);
  void Lose(PageIndex page);

  const ShadowPage& page(PageIndex page) const;
  std::size_t page_count() const { return pages_.size(); }
  /// Stamp of bytes that no page has.
  Stamp NewStamp() { return next_stamp_++; }

 private:
  std::deque<ShadowRequest>::iterator Find(TicketNumber ticket, PageIndex page);
  /// Discards at the head of the line take effect.
  void Settle(ShadowPage* page);

  Verdict* verdict_;
  std::vector<ShadowPage> pages_;
  Stamp next_stamp_ = 1;
};

}  // namespace sluice::core
