#include "runtime/engine/data/page_mapper.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/data/memory_tier.h"

namespace sluice::engine {

void PageMapper::Leave(const PageInFrame& place, PostUnmap post) {
  const base::MutexLock lock(mutex_);
  const auto kept = kept_.insert(kept_.end(), place);
  const bool new_page = by_page_.emplace(Key{place.tier, place.page}, kept).second;
  const bool new_frame = by_frame_.emplace(Key{place.tier, place.frame}, kept).second;
  SLUICE_CHECK(new_page && new_frame, "a page and a frame have one mapping that is kept");
  if (kept_.size() > options_.kept_max) post(Take(kept_.begin()));
}

bool PageMapper::Reuse(const PageInFrame& place) {
  const base::MutexLock lock(mutex_);
  const auto found = by_page_.find(Key{place.tier, place.page});
  if (found == by_page_.end()) return false;
  // Elsewhere it is mapped over.
  return Take(found->second).frame == place.frame;
}

void PageMapper::Displace(core::TierIndex tier,
                          core::FrameIndex frame,
                          PageIndex page,
                          PostUnmap post) {
  const base::MutexLock lock(mutex_);
  const auto found = by_frame_.find(Key{tier, frame});
  if (found != by_frame_.end() && found->second->page != page) post(Take(found->second));
}

void PageMapper::Forget(const PageRun& run, PostUnmap post) {
  const base::MutexLock lock(mutex_);
  for (core::TierIndex tier = 0; tier < options_.tiers->size() && !kept_.empty(); ++tier) {
    for (PageIndex page = run.first; page < run.first + run.pages; ++page) {
      const auto found = by_page_.find(Key{tier, page});
      if (found != by_page_.end()) post(Take(found->second));
    }
  }
}

absl::Status PageMapper::Map(const PageInFrame& place) {
  MemoryTier& memory = *options_.tiers->memory(place.tier);
  // A plan may ask for a mapping before any request for this segment did.
  SLUICE_RETURN_IF_ERROR(place.segment->EnsureRange(place.tier, memory).status());
  absl::Status status = MapFrame(place);
  if (status.ok()) return status;
  // The process may have as many mappings as it can.
  const Kept all = TakeIf([](const PageInFrame&) { return true; });
  for (const PageInFrame& kept : all) Unmap(kept);
  if (!all.empty()) status = MapFrame(place);
  // What was to be mapped over must not stay.
  if (!status.ok()) Unmap(place);
  return status;
}

absl::Status PageMapper::MapFrame(const PageInFrame& place) {
  return options_.tiers->memory(place.tier)
      ->Map(place.segment->range(place.tier), place.segment->PageWithin(place.page), place.frame);
}

void PageMapper::Unmap(const PageInFrame& place) {
  MemoryTier& memory = *options_.tiers->memory(place.tier);
  const absl::Status status =
      memory.Unmap(place.segment->range(place.tier), place.segment->PageWithin(place.page));
  if (status.ok()) return;
  options_.logger->Warning(fmt::format("a page of tensor '{}' stays mapped after its eviction: {}",
                                       place.segment->NameAt(place.page),
                                       base::ToStd(status.message())));
}

absl::Status PageMapper::Resize(core::TierIndex tier, core::FrameIndex frames) {
  const Kept gone =
      TakeIf([&](const PageInFrame& place) { return place.tier == tier && place.frame >= frames; });
  for (const PageInFrame& place : gone) Unmap(place);
  return options_.tiers->memory(tier)->Resize(frames);
}

PageMapper::Kept PageMapper::TakeIf(absl::FunctionRef<bool(const PageInFrame&)> goes) {
  const base::MutexLock lock(mutex_);
  Kept taken;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    if (goes(*kept)) taken.push_back(Take(kept));
    kept = next;
  }
  return taken;
}

PageInFrame PageMapper::Take(Kept::iterator kept) {
  by_page_.erase(Key{kept->tier, kept->page});
  by_frame_.erase(Key{kept->tier, kept->frame});
  PageInFrame taken = std::move(*kept);
  kept_.erase(kept);
  return taken;
}

}  // namespace sluice::engine
