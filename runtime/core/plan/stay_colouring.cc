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

/// Stays of one page, all or some.
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

void SortByBegin(std::vector<PageStays>* pages) {
  std::stable_sort(pages->begin(), pages->end(), [](const PageStays& a, const PageStays& b) {
    return a.front().begin < b.front().begin;
  });
}

/// Each of the stays alone.
std::vector<PageStays> Apart(const std::vector<PageStays>& pages) {
  std::vector<PageStays> stays;
  for (const PageStays& page : pages) {
    for (std::size_t i = 0; i < page.size(); ++i) stays.push_back(page.subspan(i, 1));
  }
  SortByBegin(&stays);
  return stays;
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
      if (IsFree(*frame, stays)) return *frame;
    }
    return kNoFrame;
  }
  bool IsFree(FrameIndex frame, PageStays stays) const {
    if (frame >= usable_.size() || !usable_[frame]) return false;
    return std::all_of(
        stays.begin(), stays.end(), [&](const Stay& stay) { return IsFree(frame, stay); });
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

/// Gives frames to stays.
class Colouring {
 public:
  Colouring(std::span<const Stay> stays, const std::vector<bool>& usable, const MappedTo& mapped_to)
      : stays_(stays), mapped_to_(mapped_to), times_(usable), frames_(stays.size(), kNoFrame) {}

  void Give(FrameIndex frame, PageStays stays) {
    times_.Give(frame, stays);
    for (std::size_t i = 0; i < stays.size(); ++i) frames_[NumberOf(stays) + i] = frame;
  }
  /// Gives one frame to each of `all`, in which begins do not fall. Returns those that found none.
  std::vector<PageStays> Place(const std::vector<PageStays>& all) {
    std::vector<PageStays> left;
    times_.Rewind();
    for (const PageStays& stays : all) {
      times_.Reach(stays.front().begin);
      const FrameIndex wish = WishOf(stays);
      const FrameIndex frame = times_.IsFree(wish, stays) ? wish : times_.FirstFree(stays);
      if (frame == kNoFrame) {
        left.push_back(stays);
      } else {
        Give(frame, stays);
      }
    }
    return left;
  }
  std::vector<FrameIndex> TakeFrames() { return std::move(frames_); }

 private:
  std::size_t NumberOf(PageStays stays) const {
    return static_cast<std::size_t>(stays.data() - stays_.data());
  }
  /// The frame of the page's stay before, or else the one that the page is mapped to.
  FrameIndex WishOf(PageStays stays) const {
    const PageIndex page = stays.front().page;
    const std::size_t number = NumberOf(stays);
    const bool follows = number > 0 && stays_[number - 1].page == page;
    const FrameIndex before = follows ? frames_[number - 1] : kNoFrame;
    return before != kNoFrame ? before : mapped_to_(page);
  }

  const std::span<const Stay> stays_;
  const MappedTo& mapped_to_;
  FrameTimes times_;
  std::vector<FrameIndex> frames_;
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
                                    const MappedTo& mapped_to) {
  std::map<PageIndex, FrameIndex> owned;
  for (FrameIndex frame = 0; frame < owners.size(); ++frame) owned[owners[frame]] = frame;
  Colouring colouring(stays, usable, mapped_to);
  std::vector<PageStays> mapped;
  std::vector<PageStays> others;
  for (const PageStays& page : ByPage(stays)) {
    const PageIndex index = page.front().page;
    if (const auto owner = owned.find(index); owner != owned.end()) {
      colouring.Give(owner->second, page);
    } else {
      (mapped_to(index) == kNoFrame ? others : mapped).push_back(page);
    }
  }
  for (std::vector<PageStays>* pages : {&mapped, &others}) {
    SortByBegin(pages);
    colouring.Place(Apart(colouring.Place(*pages)));
  }
  return colouring.TakeFrames();
}

}  // namespace sluice::core
