#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/core/types.h"
#include "sluice/options.h"
#include "sluice/units.h"

namespace sluice::engine {

/// Frames of each tier: the budgets, divided among the processes of the host and rounded down to
/// whole pages. 0: no such tier.
struct FrameCounts {
  core::FrameIndex hbm = 0;
  core::FrameIndex dram = 0;
  core::FrameIndex nvme = 0;
};

/// Frames that a tier needs at least. A middle tier, between two others, lets pages pass.
core::FrameIndex FramesMin(bool middle);

/// Most copies between dram and nvme in flight per direction; the two directions share a ring. As
/// many pages of nvme are kept free for them.
std::uint32_t StoreCopiesMax(std::uint32_t queue_depth, core::FrameIndex nvme_frames);

/// Counts the frames of each tier. Errors: InvalidArgument that names the option.
absl::StatusOr<FrameCounts> CountFrames(const RuntimeOptions& options);

/// Whether a page may have this size. `name`: the option as the message is to name it. Errors:
/// InvalidArgument.
absl::Status CheckPageBytes(std::string_view name, Bytes page_bytes);

}  // namespace sluice::engine
