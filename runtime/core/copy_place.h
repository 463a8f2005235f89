#pragma once

#include <cstdint>

#include "runtime/core/types.h"

namespace sluice::core {

/// Place of a page's current bytes.
struct CopyPlace {
  enum class Kind : std::uint8_t {
    kNowhere,  ///< bytes that are lost or about to be made again, or no page
    kZeros,    ///< no content
    kFile,     ///< the page's file home alone
    kFrame,    ///< `frame` of `tier`
  };
  Kind kind = Kind::kNowhere;
  TierIndex tier = kNoTier;
  FrameIndex frame = kNoFrame;
  friend bool operator==(const CopyPlace&, const CopyPlace&) = default;
};

/// The newest copy of a page.
struct NewestCopy {
  CopyPlace place;
  bool dies = false;  ///< a discard or free of the page waits for its turn
};

}  // namespace sluice::core
