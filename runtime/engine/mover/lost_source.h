#pragma once

#include "absl/status/status.h"

namespace sluice::engine {

/// Whether a failed read says that the bytes are gone: they are not what was written (DataLoss), or
/// nothing was (NotFound). Every other cause may pass, and the source stays what it was.
inline bool SourceIsLost(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

}  // namespace sluice::engine
