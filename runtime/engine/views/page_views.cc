#include "runtime/engine/views/page_views.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/views/view_mapping.h"

namespace sluice::engine {

absl::Status PageViews::AddZeros(const Segment& segment) {
  used_.store(true, std::memory_order_relaxed);
  return MapZeros(segment.ViewOf(segment.parts().first_page, segment.parts().pages));
}

absl::Status PageViews::AddHome(const Segment& segment) {
  used_.store(true, std::memory_order_relaxed);
  const auto all = segment.ViewOf(segment.parts().first_page, segment.parts().pages);
  if (!segment.parts().joined.empty()) {
    return absl::UnimplementedError("its bytes are put together from several places of its files");
  }
  return segment.parts().file->MapForReading(all, 0);
}

bool PageViews::HideHome(Segment& segment) {
  used_.store(true, std::memory_order_relaxed);
  segment.HideHome();
  return !hides_homes_.exchange(true);
}

bool PageViews::HideTier(core::TierIndex tier) {
  const std::uint32_t bit = 1U << tier;
  return (hidden_tiers_.fetch_or(bit) & bit) == 0;
}

core::CopyPlace PageViews::Reach(const Segment& segment, core::CopyPlace place) const {
  const bool hidden = IsFrame(place) && ((hidden_tiers_ >> place.tier) & 1U) != 0;
  const bool lacks_file = place.kind == core::CopyPlace::Kind::kFile && segment.home_hidden();
  return hidden || lacks_file ? core::CopyPlace{} : place;
}

core::CopyPlace PageViews::AtFirst(const Segment& segment) const {
  const bool has_home = segment.parts().has_home();
  return Reach(segment,
               {.kind = has_home ? core::CopyPlace::Kind::kFile : core::CopyPlace::Kind::kZeros});
}

PageViews::View& PageViews::ViewOf(const SegmentPtr& segment, PageIndex page) {
  View& view = views_[page];
  if (view.segment == nullptr) view = View{segment, AtFirst(*segment), 0};
  SLUICE_CHECK(view.segment == segment, "a page has one view");
  return view;
}

std::uint64_t PageViews::Post(Job job) {
  const std::uint64_t change = ++posted_;
  options_.mapper->Post([this, change, job = std::move(job)]() mutable {
    std::move(job)();
    done_.store(change, std::memory_order_release);
  });
  return change;
}

void PageViews::Leave(const core::CopyPlace& place, std::uint64_t change) {
  if (!IsFrame(place)) return;
  const Key key{place.tier, place.frame};
  left_[key] = change;
  shown_in_.erase(key);
}

void PageViews::Move(const SegmentPtr& segment, PageIndex page, core::CopyPlace place) {
  View& view = ViewOf(segment, page);
  place = Reach(*segment, place);
  if (view.place == place) return;
  view.change = Post([this, segment, page, place] {
    const absl::Status status = Apply(*segment, page, place);
    if (!status.ok()) NoteFailure(*segment, page, status);
  });
  Leave(view.place, view.change);
  view.place = place;
  if (IsFrame(place) && !options_.tiers->is_store(place.tier)) {
    shown_in_[Key{place.tier, place.frame}] = page;
  }
}

void PageViews::TakeFrame(core::TierIndex tier,
                          core::FrameIndex frame,
                          PageIndex page,
                          bool fills) {
  if (!used()) return;
  const base::MutexLock lock(mutex_);
  const auto found = shown_in_.find(Key{tier, frame});
  if (found == shown_in_.end() || (found->second == page && !fills)) return;
  const PageIndex shown = found->second;
  const SegmentPtr segment = views_.at(shown).segment;
  Move(segment, shown, options_.find_newest(shown).place);
}

void PageViews::LeaveSlot(const SegmentPtr& segment, PageIndex page, core::CopyPlace slot) {
  if (!segment->readable()) return;
  const base::MutexLock lock(mutex_);
  if (ViewOf(segment, page).place != slot) return;
  Move(segment, page, options_.find_newest(page).place);
}

void PageViews::LeaveFrames(core::TierIndex tier, core::FrameIndex frames) {
  if (!used()) return;
  const base::MutexLock lock(mutex_);
  std::vector<PageIndex> pages;
  for (const auto& [key, page] : shown_in_) {
    if (key.first == tier && key.second >= frames) pages.push_back(page);
  }
  for (const PageIndex page : pages) {
    const SegmentPtr segment = views_.at(page).segment;
    Move(segment, page, options_.find_newest(page).place);
  }
}

void PageViews::Hide(const SegmentPtr& segment, PageIndex page) {
  if (!segment->readable()) return;
  const base::MutexLock lock(mutex_);
  Move(segment, page, core::CopyPlace{});
}

bool PageViews::Show(const SegmentPtr& segment, PageIndex page, core::CopyPlace frame) {
  const base::MutexLock lock(mutex_);
  Move(segment, page, frame);
  return IsDone(views_.at(page).change);
}

void PageViews::NoteDiscard(const SegmentPtr& segment, const PageRun& run) {
  if (!segment->readable()) return;
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) {
    discards_.try_emplace(page, segment);
  }
}

void PageViews::ShowDiscarded() {
  if (discards_.empty()) return;
  const base::MutexLock lock(mutex_);
  for (auto discard = discards_.begin(); discard != discards_.end();) {
    const auto waits = discard++;
    const core::NewestCopy newest = options_.find_newest(waits->first);
    if (newest.dies) continue;
    Move(waits->second, waits->first, newest.place);
    discards_.erase(waits);
  }
}

void PageViews::Forget(const SegmentPtr& segment, const PageRun& run) {
  if (!segment->readable()) return;
  const base::MutexLock lock(mutex_);
  const std::uint64_t change = Post([segment, run] {
    SLUICE_CHECK(MapNothing(segment->ViewOf(run.first, run.pages)).ok(),
                 "a freed page can be unmapped (see vm.max_map_count)");
  });
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) {
    const auto found = views_.find(page);
    if (found != views_.end()) Leave(found->second.place, change);
    views_.erase(page);
    discards_.erase(page);
  }
}

bool PageViews::IsLeft(core::TierIndex tier, core::FrameIndex frame) {
  if (!used()) return true;
  const base::MutexLock lock(mutex_);
  return IsFree(Key{tier, frame});
}

bool PageViews::IsFree(const Key& key) {
  const auto found = left_.find(key);
  if (found == left_.end()) return true;
  if (!IsDone(found->second)) return false;
  left_.erase(found);
  return true;
}

void PageViews::RunAll(core::TierIndex tier, std::span<const core::FrameIndex> frames, Job job) {
  if (!used()) return std::move(job)();
  {
    const base::MutexLock lock(mutex_);
    bool left = true;
    for (const core::FrameIndex frame : frames) left = IsFree(Key{tier, frame}) && left;
    if (!left) {
      // Later jobs of these frames have to follow this one, too.
      const std::uint64_t change = Post(std::move(job));
      for (const core::FrameIndex frame : frames) left_[Key{tier, frame}] = change;
      return;
    }
  }
  std::move(job)();
}

void PageViews::RunLast(Job job) {
  const base::MutexLock lock(mutex_);
  Post(std::move(job));
}

bool PageViews::Shows(PageIndex page, core::CopyPlace place) const {
  const base::MutexLock lock(mutex_);
  const auto found = views_.find(page);
  return found != views_.end() && found->second.place == place;
}

void PageViews::Map(const SegmentPtr& segment,
                    PageIndex page,
                    core::CopyPlace frame,
                    absl::AnyInvocable<void(absl::Status)> done) {
  {
    const base::MutexLock lock(mutex_);
    View& view = ViewOf(segment, page);
    if (view.place != frame || !IsDone(view.change)) {
      // The job is posted even if the place is the same, since a job before this one may yet fail.
      if (view.place != frame) Leave(view.place, posted_ + 1);
      view.place = frame;
      shown_in_[Key{frame.tier, frame.frame}] = page;
      view.change = Post([this, segment, page, frame, done = std::move(done)]() mutable {
        std::move(done)(Apply(*segment, page, frame));
      });
      return;
    }
  }
  std::move(done)(absl::OkStatus());
}

void PageViews::Spoil(const SegmentPtr& segment,
                      PageIndex page,
                      core::CopyPlace target,
                      core::CopyPlace source) {
  if (!segment->readable()) return;
  const base::MutexLock lock(mutex_);
  if (ViewOf(segment, page).place == target) Move(segment, page, source);
}

void PageViews::Arrive(const SegmentPtr& segment, PageIndex page, core::CopyPlace place) {
  if (!segment->readable()) return;
  const base::MutexLock lock(mutex_);
  if (ViewOf(segment, page).place.kind == core::CopyPlace::Kind::kNowhere)
    Move(segment, page, place);
}

absl::Status PageViews::Apply(const Segment& segment, PageIndex page, core::CopyPlace place) {
  absl::Status status = MapNow(segment, page, place);
  if (status.ok()) return status;
  // The bytes that the view showed before may be another page's from now on.
  SLUICE_CHECK(MapNothing(segment.ViewOf(page)).ok(),
               "what a page must not show any more can be unmapped (see vm.max_map_count)");
  const base::MutexLock lock(mutex_);
  const auto found = views_.find(page);
  // Jobs run in order, so this is the one after the last that has run.
  const std::uint64_t change = done_.load(std::memory_order_relaxed) + 1;
  if (found == views_.end() || found->second.change != change) return status;
  if (IsFrame(place)) shown_in_.erase(Key{place.tier, place.frame});
  found->second.place = core::CopyPlace{};
  return status;
}

absl::Status PageViews::MapNow(const Segment& segment, PageIndex page, core::CopyPlace place) {
  const std::span<std::byte> at = segment.ViewOf(page);
  switch (place.kind) {
    case core::CopyPlace::Kind::kNowhere:
      return MapNothing(at);
    case core::CopyPlace::Kind::kZeros:
      return MapZeros(at);
    case core::CopyPlace::Kind::kFile:
      return segment.parts().file->MapForReading(at,
                                                 segment.PageWithin(page) * segment.page_bytes());
    case core::CopyPlace::Kind::kFrame:
      break;
  }
  if (options_.tiers->is_store(place.tier)) return MapSlot(at, place.frame);
  return options_.tiers->memory(place.tier)->MapForReading(place.frame, at.data());
}

absl::Status PageViews::MapSlot(std::span<std::byte> at, core::FrameIndex slot) {
  SLUICE_ASSIGN_OR_RETURN(const io::PageStore::FilePart part,
                          options_.tiers->store()->FindPart(slot));
  return MapFile(at, part.fd, part.offset);
}

void PageViews::NoteFailure(const Segment& segment, PageIndex page, const absl::Status& status) {
  {
    const base::MutexLock lock(mutex_);
    if (!told_.insert(segment.parts().index).second) return;
  }
  options_.logger->Warning(fmt::format(
      "a page of tensor '{}' cannot be read outside a lease (said once of its segment): {}",
      segment.NameAt(page),
      base::ToStd(status.message())));
}

}  // namespace sluice::engine
