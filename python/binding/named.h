#pragma once

#include <string>

#include "absl/status/status.h"
#include "python/binding/status.h"

namespace sluice::python {

/// The enumerator with the name, among the first to `last`. Raises InvalidArgument, which lists the
/// names. REQUIRES: the GIL.
template <typename Enum>
Enum Named(const std::string& name, Enum last, const std::string& what) {
  std::string allowed;
  for (int value = 0; value <= static_cast<int>(last); ++value) {
    const std::string each(ToString(static_cast<Enum>(value)));
    if (name == each) return static_cast<Enum>(value);
    allowed += (allowed.empty() ? "" : ", ") + each;
  }
  Raise(absl::InvalidArgumentError(what + " is \"" + name + "\"; allowed are " + allowed));
}

}  // namespace sluice::python
