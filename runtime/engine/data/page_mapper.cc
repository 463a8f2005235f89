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
  if (options_.tiers->tier(place.tier).left_mapping == LeftMapping::kGoes) return post(place);
  TierMappings& tier = mappings_[place.tier];
  const auto kept = tier.kept.insert(tier.kept.end(), place);
  const bool new_page = tier.by_page.emplace(place.page, kept).second;
  const bool new_frame =
      !GoesWhenTaken(place.tier) || tier.by_frame.emplace(place.frame, kept).second;
  SLUICE_CHECK(new_page && new_frame, "a page and a frame have one mapping that is kept");
  if (IsTooMany(place.tier)) post(Take(tier.kept.begin()));
}

/// The addresses of a GPU cost nothing of the kernel's.
bool PageMapper::IsTooMany(core::TierIndex tier) {
  return mappings_[tier].kept.size() > options_.kept_max &&
         options_.tiers->memory(tier)->host_accessible();
}

bool PageMapper::Reuse(const PageInFrame& place) {
  const base::MutexLock lock(mutex_);
  TierMappings& tier = mappings_[place.tier];
  const auto found = tier.by_page.find(place.page);
  if (found == tier.by_page.end()) return false;
  PageInFrame before = Take(found->second);
  if (before.frame == place.frame) return true;
  tier.mapped_over.insert_or_assign(place.page, std::move(before));
  return false;
}

void PageMapper::Displace(core::TierIndex tier,
                          core::FrameIndex frame,
                          PageIndex page,
                          PostUnmap post) {
  const base::MutexLock lock(mutex_);
  const auto found = mappings_[tier].by_frame.find(frame);
  if (found == mappings_[tier].by_frame.end()) return;
  if (found->second->page != page) post(Take(found->second));
}

void PageMapper::Forget(const PageRun& run, PostUnmap post) {
  const base::MutexLock lock(mutex_);
  for (TierMappings& tier : mappings_) {
    for (PageIndex page = run.first; !tier.kept.empty() && page < run.first + run.pages; ++page) {
      const auto found = tier.by_page.find(page);
      if (found != tier.by_page.end()) post(Take(found->second));
    }
  }
}

absl::Status PageMapper::Map(const PageInFrame& place) {
  MemoryTier& memory = *options_.tiers->memory(place.tier);
  // A plan may ask for a mapping before any request for this segment did.
  SLUICE_RETURN_IF_ERROR(place.segment->EnsureRange(place.tier, memory).status());
  {
    const base::MutexLock lock(mutex_);
    mappings_[place.tier].mapped_over.erase(place.page);
  }
  absl::Status status = MapFrame(place);
  if (status.ok()) return status;
  // The process may have as many mappings as it can.
  const Kept all = TakeAll();
  for (const PageInFrame& kept : all) Unmap(kept);
  if (!all.empty()) status = MapFrame(place);
  // A mapping that was to be mapped over must not stay.
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
  const Kept gone = TakeFrom(tier, frames);
  for (const PageInFrame& place : gone) Unmap(place);
  return options_.tiers->memory(tier)->Resize(frames);
}

PageMapper::Kept PageMapper::TakeAll() {
  const base::MutexLock lock(mutex_);
  Kept taken;
  for (TierMappings& tier : mappings_) {
    while (!tier.kept.empty()) taken.push_back(Take(tier.kept.begin()));
  }
  return taken;
}

PageMapper::Kept PageMapper::TakeFrom(core::TierIndex index, core::FrameIndex frames) {
  const base::MutexLock lock(mutex_);
  TierMappings& tier = mappings_[index];
  Kept taken;
  for (auto kept = tier.kept.begin(); kept != tier.kept.end();) {
    const auto next = std::next(kept);
    if (kept->frame >= frames) taken.push_back(Take(kept));
    kept = next;
  }
  absl::erase_if(tier.mapped_over, [&](const auto& entry) {
    const bool goes = entry.second.frame >= frames;
    if (goes) taken.push_back(entry.second);
    return goes;
  });
  return taken;
}

PageInFrame PageMapper::Take(Kept::iterator kept) {
  TierMappings& tier = mappings_[kept->tier];
  tier.by_page.erase(kept->page);
  if (GoesWhenTaken(kept->tier)) tier.by_frame.erase(kept->frame);
  PageInFrame taken = std::move(*kept);
  tier.kept.erase(kept);
  return taken;
}

}  // namespace sluice::engine
