#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sluice/events.h"
#include "sluice/tensor.h"

/// Counters of a Runtime, from its creation on:
///
///   const sluice::Stats stats = runtime->GetStats();
///   const std::uint64_t read_bytes = stats.links.at("dram-nvme").in.bytes;
///   const std::uint64_t peak_bytes = stats.tiers.at("dram").peak_bytes;  // never above the budget
///   const double stalled = stats.stall_seconds;
///   Print(stats.io.engine + ", " + stats.io.features);

namespace sluice {

/// Latencies in microseconds from a histogram with at most 6 % error per value.
struct LatencyStats {
  std::uint64_t count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

/// One direction of a link. Counters grow from the Runtime's creation on.
struct DirectionStats {
  std::uint64_t bytes = 0;
  std::uint64_t copies = 0;
  std::uint64_t failed = 0;
  /// Length of the union of the intervals during which at least one copy was in flight.
  double busy_seconds = 0;
  /// Copies in flight now, and the most there ever were.
  std::uint32_t queue_depth = 0;
  std::uint32_t queue_depth_max = 0;
  LatencyStats latency;
};

/// In is towards hbm, out away from it. Names: "hbm-dram", "dram-nvme".
struct LinkStats {
  DirectionStats in;
  DirectionStats out;
};

struct TierStats {
  std::uint64_t budget_bytes = 0;
  /// Bytes of frames in use now and at most, staging, in-flight and reserved frames included.
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  /// Pages of tensors that never go below this tier, wherever they are now: what is promised of its
  /// capacity.
  std::uint64_t committed_bytes = 0;
  /// Bytes of frames that are kept for pages in transit.
  std::uint64_t transit_bytes = 0;
  /// Used bytes by TensorKind.
  std::array<std::uint64_t, kTensorKindCount> by_kind{};
  /// Share of the arena on huge pages; 0 where a tier has none.
  double huge_page_share = 0;
  /// Bytes the kernel has allocated for the arena.
  std::uint64_t arena_bytes = 0;
};

/// Pages that were moved up ahead of need, each counted once however many links it crosses. What is
/// none of the four is on its way, or there and not used yet.
struct PrefetchStats {
  std::uint64_t issued = 0;
  std::uint64_t hit = 0;      ///< complete before it was needed
  std::uint64_t late = 0;     ///< still in flight, or not all the way up, when it was needed
  std::uint64_t revoked = 0;  ///< given up before use because an op needed the frame
  std::uint64_t wasted = 0;   ///< evicted unused
};

struct EvictionStats {
  std::uint64_t dropped_clean = 0;   ///< a valid copy was below (or above)
  std::uint64_t dropped_dead = 0;    ///< content discarded or freed
  std::uint64_t written_demand = 0;  ///< paged out while an op waited for the frame
  std::uint64_t written_ahead = 0;   ///< paged out ahead of need
  std::uint64_t cleaned = 0;         ///< written ahead and kept
};

/// Plans made for iterations that repeat (policy "planned"), and the time that took, beside the
/// program.
struct PlanStats {
  std::uint64_t made = 0;
  double seconds = 0;
};

/// One drive of nvme.
struct DriveStats {
  std::string directory;
  std::uint64_t reads = 0;      ///< pages
  std::uint64_t writes = 0;     ///< pages
  std::uint64_t slots = 0;      ///< room for as many pages, a few to spare included
  std::uint64_t retired = 0;    ///< slots of these that lost a page, and are used no more
  double bytes_per_second = 0;  ///< both directions while busy, as last seen; 0: not known yet
  /// As it was measured to divide the slots; 0: it was not.
  double bytes_per_second_at_start = 0;
  bool fenced = false;  ///< failed: written no more
};

struct IoStats {
  std::string engine;  ///< "io_uring" or "threads"
  bool direct = false;
  /// True if every file system overwrites pages in place, so that no write needs new space.
  bool nocow = false;
  /// True if the file systems reserved the spill files' space, so that none was written in full.
  bool reserved_space = false;
  std::uint64_t short_io = 0;
  std::uint64_t retries = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t merged = 0;  ///< requests that reached the kernel within another one
  /// What the engine works with, for people: of io_uring what the kernel granted, else how many
  /// threads: "16 threads".
  std::string features;
  /// Bytes of dram that the ring knows (pinned once, not at every request), and why not all of
  /// them; empty when all are.
  std::uint64_t registered_bytes = 0;
  std::string registered_reason;
  std::uint64_t retired = 0;       ///< slots of all drives that lost a page, and are used no more
  std::vector<DriveStats> drives;  ///< none without nvme
};

struct Stats {
  std::map<std::string, LinkStats> links;
  std::map<std::string, TierStats> tiers;  ///< "hbm", "dram", "nvme"
  PrefetchStats prefetch;
  EvictionStats evictions;
  PlanStats plans;
  IoStats io;
  std::vector<FallbackEvent> fallbacks;
  /// Time that threads spent blocked in Ticket::Wait and Take, summed; and what of it went into
  /// waiting for reads and for writes (WaitTimes), which together are all of it.
  double stall_seconds = 0;
  double stall_read_seconds = 0;
  double stall_write_seconds = 0;
  /// Bytes of live tensors now and at most, without padding; and what page rounding adds now.
  std::uint64_t live_bytes = 0;
  std::uint64_t live_bytes_peak = 0;
  std::uint64_t padding_bytes = 0;
  std::uint64_t schedule_divergences = 0;
  /// By RuntimeOptions::schedules_max and recorded_accesses_max: schedules that newer ones have
  /// displaced, and iterations that were too long to be recorded.
  std::uint64_t schedules_dropped = 0;
  std::uint64_t iterations_too_long = 0;
  std::uint64_t pages_lost = 0;
};

}  // namespace sluice
