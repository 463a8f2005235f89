#pragma once

#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "runtime/core/types.h"

namespace sluice::engine {

/// Cause for which a page could not be read or brought to a tier, and the tier.
struct PageFault {
  core::TierIndex tier = core::kNoTier;
  absl::Status cause;
};

/// Remembers the causes of failures of pages and tiers, so that a failed ticket can tell them. The
/// core knows no causes. Threads: the core thread only.
class FaultLog {
 public:
  void NotePage(PageIndex page, PageFault fault) { pages_[page] = std::move(fault); }
  void NoteTier(core::TierIndex tier, absl::Status cause) { tiers_[tier] = std::move(cause); }
  void ForgetTier(core::TierIndex tier) { tiers_.erase(tier); }
  /// Notes that the page could not be brought to a tier, but is not lost.
  void NoteAttempt(PageIndex page, PageFault fault) { attempts_[page] = std::move(fault); }
  void ForgetAttempt(PageIndex page) { attempts_.erase(page); }
  void ForgetPage(PageIndex page) {
    pages_.erase(page);
    attempts_.erase(page);
  }

  /// Fault of the page; empty when nothing is known.
  PageFault OfPage(PageIndex page) const {
    const auto found = pages_.find(page);
    return found == pages_.end() ? PageFault{} : found->second;
  }
  /// The last attempt to bring the page, if it failed; empty when nothing is known.
  PageFault AttemptOf(PageIndex page) const {
    const auto found = attempts_.find(page);
    return found == attempts_.end() ? PageFault{} : found->second;
  }
  /// Cause of the tier's failure; OK when nothing is known.
  absl::Status OfTier(core::TierIndex tier) const {
    const auto found = tiers_.find(tier);
    return found == tiers_.end() ? absl::OkStatus() : found->second;
  }

 private:
  std::unordered_map<PageIndex, PageFault> pages_;
  std::unordered_map<PageIndex, PageFault> attempts_;
  std::unordered_map<core::TierIndex, absl::Status> tiers_;
};

}  // namespace sluice::engine
