#include "tests/runtime/core/driver/random_blocks.h"

#include <algorithm>

namespace sluice::core {
namespace {

constexpr std::size_t kBlocksMax = 12;

PageMode RandomMode(std::uint64_t dice) {
  if (dice < 5) return PageMode::kRead;
  return dice < 8 ? PageMode::kWrite : PageMode::kOverwrite;
}

}  // namespace

void RandomBlocks::CreateAll() {
  const TierIndex last = last_tier();
  std::uint32_t left = scenario_->pages;
  while (left > 0) {
    const auto pages =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, 1 + random_->Below(6)));
    const bool high = last > 1 && random_->Chance(150);
    const auto lowest = high ? static_cast<TierIndex>(1 + random_->Below(last - 1u)) : last;
    Create(pages, lowest, scenario_->segments ? random_->Chance(600) : true);
    left -= pages;
  }
}

void RandomBlocks::CreateOne() {
  if (blocks_.size() >= kBlocksMax) return;
  Create(static_cast<std::uint32_t>(1 + random_->Below(5)), last_tier(), false);
}

void RandomBlocks::Create(std::uint32_t pages, TierIndex lowest, bool permanent) {
  const PageIndex first = FindRoom(pages);
  const SegmentIndex segment = next_segment_++;
  const bool read_only = random_->Chance(100);
  if (read_only) lowest = std::min(lowest, static_cast<TierIndex>(last_tier() - 1));
  const auto actions = driver_->Send(CreateSegment{.segment = segment,
                                                   .first_page = first,
                                                   .pages = pages,
                                                   .lowest = lowest,
                                                   .kind = TensorKind::kParameter,
                                                   .file_home = read_only || random_->Chance(150),
                                                   .reproducible = random_->Chance(200),
                                                   .read_only = read_only});
  if (Select<SegmentCreated>(actions).empty()) return;
  blocks_.push_back({first, pages, lowest, permanent, read_only});
}

PageIndex RandomBlocks::FindRoom(std::uint32_t pages) const {
  for (PageIndex first = 0;; ++first) {
    bool room = true;
    for (PageIndex page = first; page < first + pages; ++page) {
      room = room && !driver_->shadow().page(page).exists;
    }
    if (room) return first;
  }
}

void RandomBlocks::FreeOne() {
  if (blocks_.empty()) return;
  const std::size_t chosen = random_->Below(blocks_.size());
  const Block block = blocks_[chosen];
  if (block.permanent) return;
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(chosen));
  driver_->Send(FreePages{block.first_page, block.pages});
}

std::optional<PageRequest> RandomBlocks::RandomRequest(bool permanent) {
  if (blocks_.empty()) return std::nullopt;
  const Block& block = blocks_[random_->Below(blocks_.size())];
  if (permanent && !block.permanent) return std::nullopt;
  const auto page = static_cast<PageIndex>(block.first_page + random_->Below(block.pages));
  if (!driver_->shadow().page(page).exists || driver_->shadow().page(page).freeing()) {
    return std::nullopt;
  }
  // The last tier only holds pages; leases are taken above it.
  const auto tiers = static_cast<TierIndex>(
      std::min<std::size_t>(block.lowest + 1u, scenario_->driver.frames.size() - 1));
  const auto tier = static_cast<TierIndex>(random_->Chance(700) ? 0 : random_->Below(tiers));
  return PageRequest{.page = page,
                     .tier = tier,
                     .mode = block.read_only ? PageMode::kRead : RandomMode(random_->Below(10)),
                     .map = random_->Chance(300),
                     .leases = static_cast<std::uint16_t>(1 + random_->Below(2))};
}

}  // namespace sluice::core
