#pragma once

#include <xmmintrin.h>

namespace sluice::optim {

/// While it lives, the calling thread rounds to nearest and keeps denormals, whatever its caller
/// had set.
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
  static constexpr unsigned kDefault = 0x1f80;  ///< all exceptions masked, nothing else
  static constexpr unsigned kFlags = 0x3f;      ///< exceptions that were seen

  const unsigned saved_;
};

}  // namespace sluice::optim
