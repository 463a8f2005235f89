#pragma once

#include <array>
#include <cstddef>

#include "runtime/core/types.h"
#include "runtime/engine/link_meter.h"

namespace sluice::engine {

/// A meter per link and direction; link i joins tiers i and i + 1. Threads: any.
class LinkMeters {
 public:
  LinkMeter& Of(core::TierIndex link, core::Direction direction) {
    return meters_[link][static_cast<std::size_t>(direction)];
  }
  const LinkMeter& Of(core::TierIndex link, core::Direction direction) const {
    return meters_[link][static_cast<std::size_t>(direction)];
  }

 private:
  std::array<std::array<LinkMeter, 2>, core::kTiersMax - 1> meters_;
};

}  // namespace sluice::engine
