#include "runtime/core/plan/stay_colouring.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace sluice::core {
namespace {

/// Idle frames that are tried for all pages together, and for each page beyond that. The core
/// thread waits for the choice.
constexpr std::size_t kTriesMax = 8'000'000;
constexpr std::size_t kTriesBeyond = 32;

/// All stays of one page.
using PageStays = std::span<const Stay>;

std::vector<PageStays> ByPage(std::span<const Stay> stays) {
  std::vector<PageStays> pages;
  for (std::size_t first = 0; first < stays.size();) {
    std::size_t end = first + 1;
    while (end < stays.size() && stays[end].page == stays[first].page) ++end;
    pages.push_back(stays.subspan(first, end - first));
    first = end;
  }
  return pages;
}

/// Stays in frames, and a sweep over the events that knows the idle frames.
class FrameTimes {
 public:
  explicit FrameTimes(const std::vector<bool>& usable) : usable_(usable), taken_(usable.size()) {
    Rewind();
  }

  /// The sweep begins anew.
  void Rewind() {
    changes_ = {};
    idle_.clear();
    for (FrameIndex frame = 0; frame < usable_.size(); ++frame) {
      if (usable_[frame]) idle_.insert(frame);
      for (const auto& [begin, end] : taken_[frame]) AddChanges(frame, begin, end);
    }
  }
  /// The sweep goes on to the event. REQUIRES: it has not gone further.
  void Reach(std::uint32_t event) {
    for (; !changes_.empty() && std::get<0>(changes_.top()) <= event; changes_.pop()) {
      const auto [at, begins, frame] = changes_.top();
      if (begins) {
        idle_.erase(frame);
      } else {
        idle_.insert(frame);
      }
    }
  }
  /// The first idle frame that is free during the stays; kNoFrame: none among those that are tried.
  FrameIndex FirstFree(PageStays stays) {
    std::size_t left = std::max(tries_left_, kTriesBeyond);
    for (auto frame = idle_.begin(); frame != idle_.end() && left > 0; ++frame, --left) {
      if (tries_left_ > 0) --tries_left_;
      const bool free = std::all_of(
          stays.begin(), stays.end(), [&](const Stay& stay) { return IsFree(*frame, stay); });
      if (free) return *frame;
    }
    return kNoFrame;
  }
  void Give(FrameIndex frame, PageStays stays) {
    for (const Stay& stay : stays) {
      taken_[frame].emplace(stay.begin, stay.end);
      AddChanges(frame, stay.begin, stay.end);
    }
  }

 private:
  using Change = std::tuple<std::uint32_t, bool, FrameIndex>;  ///< event, and whether a stay begins

  void AddChanges(FrameIndex frame, std::uint32_t begin, std::uint32_t end) {
    changes_.emplace(begin, true, frame);
    changes_.emplace(end, false, frame);
  }
  bool IsFree(FrameIndex frame, const Stay& stay) const {
    const auto after = taken_[frame].lower_bound(stay.end);
    return after == taken_[frame].begin() || std::prev(after)->second <= stay.begin;
  }

  const std::vector<bool>& usable_;
  std::vector<std::map<std::uint32_t, std::uint32_t>> taken_;  ///< begins and ends, by frame
  std::set<FrameIndex> idle_;  ///< usable frames without a stay at the event
  std::size_t tries_left_ = kTriesMax;
  std::priority_queue<Change, std::vector<Change>, std::greater<>> changes_;
};

}  // namespace

std::vector<Stay> StaysOf(std::span<const FrameEvent> events, std::span<const PageIndex> owners) {
  const auto end = static_cast<std::uint32_t>(events.size() + 1);
  std::vector<Stay> stays;
  std::map<PageIndex, std::uint32_t> begun;  // pages that have come and not gone
  std::set<PageIndex> seen;
  for (std::uint32_t event = 1; event < end; ++event) {
    const auto [page, comes] = events[event - 1];
    seen.insert(page);
    if (comes) {
      begun[page] = event;
      continue;
    }
    const auto found = begun.find(page);
    stays.push_back({page, found == begun.end() ? 0 : found->second, event});
    if (found != begun.end()) begun.erase(found);
  }
  for (const auto& [page, event] : begun) stays.push_back({page, event, end});
  for (const PageIndex page : owners) {
    if (page != kNoPage && !seen.contains(page)) stays.push_back({page, 0, end});
  }
  std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) {
    return std::tie(a.page, a.begin) < std::tie(b.page, b.begin);
  });
  return stays;
}

std::vector<FrameIndex> ColourStays(std::span<const Stay> stays,
                                    std::span<const PageIndex> owners,
                                    const std::vector<bool>& usable,
                                    const std::function<bool(PageIndex)>& is_mapped) {
  std::vector<FrameIndex> homes(stays.empty() ? 0 : stays.back().page + 1, kNoFrame);
  for (FrameIndex frame = 0; frame < owners.size(); ++frame) {
    if (owners[frame] < homes.size()) homes[owners[frame]] = frame;
  }
  std::vector<PageStays> pages = ByPage(stays);
  std::stable_sort(pages.begin(), pages.end(), [](const PageStays& a, const PageStays& b) {
    return a.front().begin < b.front().begin;
  });
  FrameTimes times(usable);
  for (const PageStays& page : pages) {
    const FrameIndex owned = homes[page.front().page];
    if (owned != kNoFrame) times.Give(owned, page);
  }
  for (const bool mapped : {true, false}) {
    times.Rewind();
    for (const PageStays& page : pages) {
      FrameIndex& home = homes[page.front().page];
      if (home != kNoFrame || is_mapped(page.front().page) != mapped) continue;
      times.Reach(page.front().begin);
      home = times.FirstFree(page);
      if (home != kNoFrame) times.Give(home, page);
    }
  }
  return homes;
}

}  // namespace sluice::core
