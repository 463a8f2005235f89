#pragma once

#include <xmmintrin.h>

namespace sluice::optim {

/// Rounding to nearest, and denormals that are kept, for the calling thread while the object lives.
/// The settings of the caller come back afterwards.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) {
    if ((saved_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatEnvironment() {
    if ((saved_ & ~kFlags) != kDefault) _mm_setcsr(saved_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1f80;  ///< exceptions all masked, every other bit 0
  static constexpr unsigned kFlags = 0x3f;      ///< exceptions that were seen

  const unsigned saved_;
};

}  // namespace sluice::optim
