#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// Effect of an event on one run of bytes of a page.
enum class Effect : std::uint8_t { kNone, kRead, kReadWrite, kOverwrite, kDiscard };

/// Whether the old content is needed.
constexpr bool Reads(Effect effect) {
  return effect == Effect::kRead || effect == Effect::kReadWrite;
}
constexpr bool Writes(Effect effect) {
  return effect == Effect::kReadWrite || effect == Effect::kOverwrite;
}

/// One access or discard, cut to one page.
struct PageTouch {
  Effect effect = Effect::kNone;
  std::uint64_t begin = 0;  ///< first byte within the page
  std::uint64_t end = 0;
};

/// Touches of one op on one page; a discard after an op is an event of its own.
struct PageEvent {
  std::uint32_t op = 0;
  bool is_discard = false;
  /// Whether some of the touches are in a tier above the link.
  bool above = false;
  bool writes = false;
  std::vector<PageTouch> touches;
};

/// Pages that lie one behind the other and are touched alike, and the events of each.
struct AlikePages {
  std::uint64_t pages = 0;
  std::vector<PageEvent> events;
};

/// All pages that a schedule touches, in order of ops within each. Ranges are cut to their tensors.
std::vector<AlikePages> CollectPageRuns(const Schedule& schedule, TierKind lowest_above);

}  // namespace sluice::analysis
