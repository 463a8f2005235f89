#include "runtime/engine/setup/frame_counts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/core/core.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::engine {
namespace {

constexpr Bytes kPageBytesMin = 4_KiB;
constexpr Bytes kPageBytesMax = 64_MiB;
constexpr std::uint32_t kQueueDepthMax = 1024;

absl::Status CheckScalars(const RuntimeOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckPageBytes("page_bytes", options.page_bytes));
  if (options.share.count == 0 || options.share.index >= options.share.count) {
    return absl::InvalidArgumentError(fmt::format(
        "share is {} of {}; the index counts from 0", options.share.index, options.share.count));
  }
  if (options.io.queue_depth < 1 || options.io.queue_depth > kQueueDepthMax) {
    return absl::InvalidArgumentError(fmt::format(
        "io.queue_depth is {}; allowed are 1 to {}", options.io.queue_depth, kQueueDepthMax));
  }
  if (options.worker_threads < 1) {
    return absl::InvalidArgumentError(
        fmt::format("worker_threads is {}; at least 1 is needed", options.worker_threads));
  }
  if (options.request_queue_capacity < 1) {
    return absl::InvalidArgumentError("request_queue_capacity is 0; at least 1 is needed");
  }
  if (options.schedules_max < 1) {
    return absl::InvalidArgumentError("schedules_max is 0; at least 1 is needed");
  }
  if (options.recorded_accesses_max < 1) {
    return absl::InvalidArgumentError("recorded_accesses_max is 0; at least 1 is needed");
  }
  SLUICE_RETURN_IF_ERROR(CheckCpus(options.cpus));
  SLUICE_RETURN_IF_ERROR(CheckSeconds("stall_seconds", options.stall_seconds));
  const EmulatedDeviceOptions& emulated = options.emulated;
  SLUICE_RETURN_IF_ERROR(CheckSeconds("device.emulated.latency_seconds", emulated.latency_seconds));
  SLUICE_RETURN_IF_ERROR(
      CheckRate("device.emulated.in_bytes_per_second", emulated.in_bytes_per_second));
  return CheckRate("device.emulated.out_bytes_per_second", emulated.out_bytes_per_second);
}

/// Frames of a budget that is too small, in words.
absl::Status TooFew(
    std::string_view name, Bytes budget, std::uint64_t divide_by, Bytes page, std::uint64_t min) {
  if (divide_by == 1) {
    return absl::InvalidArgumentError(
        fmt::format("tiers.{}.bytes is {}; at least {} ({}) are needed",
                    name,
                    ToString(budget),
                    ExactSize(page * min),
                    base::Counted(min, "page")));
  }
  return absl::InvalidArgumentError(
      fmt::format("tiers.{}.bytes is {}, of which this process has 1/{}; at least {} ({} for each "
                  "process) are needed",
                  name,
                  ToString(budget),
                  divide_by,
                  ExactSize(page * (min * divide_by)),
                  base::Counted(min, "page")));
}

absl::StatusOr<core::FrameIndex> FramesOf(
    std::string_view name, Bytes budget, std::uint64_t divide_by, Bytes page, std::uint64_t min) {
  const std::uint64_t frames = budget.count() / divide_by / page.count();
  if (frames < min) return TooFew(name, budget, divide_by, page, min);
  if (frames >= core::kNoFrame) {
    return absl::InvalidArgumentError(fmt::format(
        "tiers.{}.bytes is {}: too many pages of {}; at most {} are possible, so make page_bytes "
        "larger or the tier smaller",
        name,
        ToString(budget),
        ToString(page),
        core::kNoFrame - 1));
  }
  return static_cast<core::FrameIndex>(frames);
}

}  // namespace

absl::Status CheckPageBytes(std::string_view name, Bytes page_bytes) {
  if (std::has_single_bit(page_bytes.count()) && page_bytes >= kPageBytesMin &&
      page_bytes <= kPageBytesMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("{} is {}; it must be a power of two from {} to {}",
                                                name,
                                                ToString(page_bytes),
                                                ToString(kPageBytesMin),
                                                ToString(kPageBytesMax)));
}

// A tier between two others: two transit frames per direction and one to live in (I9).
core::FrameIndex FramesMin(bool middle) { return middle ? 5 : 1; }

std::uint32_t StoreCopiesMax(std::uint32_t queue_depth, core::FrameIndex nvme_frames) {
  const std::uint32_t usual = core::CoreOptions().copies_in_flight_max;
  return std::clamp(queue_depth / 2, 1u, std::max(usual, nvme_frames / 8));
}

absl::StatusOr<FrameCounts> CountFrames(const RuntimeOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckScalars(options));
  const bool hbm = options.hbm_bytes > Bytes();
  const bool nvme = options.nvme_bytes > Bytes();
  const Bytes page = options.page_bytes;
  const std::uint64_t share = options.share.count;
  FrameCounts frames;
  if (hbm) {
    SLUICE_ASSIGN_OR_RETURN(frames.hbm, FramesOf("hbm", options.hbm_bytes, 1, page, 1));
  }
  const core::FrameIndex dram_min = FramesMin(hbm);
  SLUICE_ASSIGN_OR_RETURN(frames.dram, FramesOf("dram", options.dram_bytes, share, page, dram_min));
  if (nvme) {
    const std::uint64_t drives = 1 + options.io.more_directories.size();
    SLUICE_ASSIGN_OR_RETURN(frames.nvme, FramesOf("nvme", options.nvme_bytes, share, page, drives));
  }
  return frames;
}

}  // namespace sluice::engine
