#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "runtime/core/actions.h"
#include "runtime/engine/data/segment.h"

namespace sluice::engine {

/// Writes a page's content into `frame`: from its file home, by its tensors' callbacks, or as
/// zeros. Bytes that belong to no tensor become zero, or the file's own if the home is only read.
/// Blocks; runs on a worker thread. Errors: those of the file or of the callback.
absl::Status FillPage(core::FillKind kind,
                      const Segment& segment,
                      PageIndex page,
                      std::span<std::byte> frame);

}  // namespace sluice::engine
