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
///   const auto disk = stats.links.find("dram-nvme");   // absent without nvme
///   const std::uint64_t read_bytes = disk == stats.links.end() ? 0 : disk->second.in.bytes;
///   const auto dram = stats.tiers.find("dram");        // absent in a child of fork
///   if (dram != stats.tiers.end()) Print(dram->second.peak_bytes);  // never above the budget
///   const double stalled = stats.stall_seconds;
///   Print(stats.io.engine + ", " + stats.io.features);

namespace sluice {

/// Latencies in microseconds from a histogram with an error of at most 1/32 per value.
struct LatencyStats {
  std::uint64_t count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

/// A direction of a link. Counters grow from the Runtime's creation on.
struct DirectionStats {
  std::uint64_t bytes = 0;   ///< bytes of copies that succeeded
  std::uint64_t copies = 0;  ///< successful copies, of one page each
  std::uint64_t failed = 0;  ///< copies that failed
  /// Time during which at least one copy was in flight.
  double busy_seconds = 0;
  /// Copies in flight now, and the most there ever were.
  std::uint32_t queue_depth = 0;
  std::uint32_t queue_depth_max = 0;
  /// Times from handing a copy over to its end, failed copies included.
  LatencyStats latency;
};

/// A link: "hbm-dram" or "dram-nvme". In is towards hbm.
struct LinkStats {
  DirectionStats in;
  DirectionStats out;
};

/// Pages that came to a tier whose mappings stay (MemoryOptions::keep_mappings) for a lease at
/// their addresses: hbm.
struct MappingStats {
  std::uint64_t first = 0;     ///< pages whose address was not mapped
  std::uint64_t again = 0;     ///< pages whose address was mapped already
  std::uint64_t in_place = 0;  ///< pages of `again` in the same frame: nothing was mapped
};

/// Figures of a tier. The frames of nvme are slots of the page store.
struct TierStats {
  /// Budget as SetBudget has left it, in whole pages.
  std::uint64_t budget_bytes = 0;
  /// Bytes of frames in use now and at most, staging, in-flight and reserved frames included.
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  /// Bytes of pages that never go below this tier, wherever they are now: the committed part of the
  /// capacity. Tensors that are only read are committed to no tier.
  std::uint64_t committed_bytes = 0;
  /// Bytes of frames that are kept for pages in transit.
  std::uint64_t transit_bytes = 0;
  /// Used bytes by TensorKind.
  std::array<std::uint64_t, kTensorKindCount> by_kind{};
  /// Share of the memory on huge pages, 0 to 1. It is 1 for a GPU and 0 for nvme.
  double huge_page_share = 0;
  /// Bytes that the kernel or the GPU's driver has allocated for the frames; 0 for nvme.
  std::uint64_t arena_bytes = 0;
  MappingStats mappings;
};

/// Pages moved up ahead of need. A page counts once, for any number of links. A page that is in
/// none of the four outcomes is on its way, or there and not used yet.
struct PrefetchStats {
  std::uint64_t issued = 0;
  std::uint64_t hit = 0;      ///< pages complete before their use
  std::uint64_t late = 0;     ///< pages in flight, or not all the way up, at their use
  std::uint64_t revoked = 0;  ///< pages given up before use, as an op needed the frame
  std::uint64_t wasted = 0;   ///< pages evicted unused
  std::uint64_t waiting = 0;  ///< pages wanted ahead that are neither there nor on the way
};

/// Pages that left a frame, by what that took, and pages that were cleaned.
struct EvictionStats {
  std::uint64_t dropped_clean = 0;   ///< pages dropped with a valid copy elsewhere
  std::uint64_t dropped_dead = 0;    ///< pages dropped with content discarded or freed
  std::uint64_t written_demand = 0;  ///< pages paged out while an op waited for the frame
  std::uint64_t written_ahead = 0;   ///< pages paged out ahead of need
  std::uint64_t cleaned = 0;         ///< pages written ahead and kept
};

/// Plans made in the background (policy "planned"), and the time for them.
struct PlanStats {
  std::uint64_t made = 0;
  double seconds = 0;
};

/// A drive of nvme. A slot is the store's number for one generation of a page. A place is where it
/// lies in the files: the store chooses one at each write.
struct DriveStats {
  std::string directory;
  std::uint64_t reads = 0;      ///< pages
  std::uint64_t writes = 0;     ///< pages
  std::uint64_t places = 0;     ///< places, spare ones included
  std::uint64_t retired = 0;    ///< places that lost a page and are used no more
  double bytes_per_second = 0;  ///< latest rate of both directions while busy; 0: not known yet
  /// Rate measured at the start to divide the pages among drives; 0: not measured.
  double bytes_per_second_at_start = 0;
  bool fenced = false;  ///< true if the drive failed and is written no more
};

/// Spill files and the engine that reads and writes them. Every field is empty, false or 0 without
/// nvme. Flags hold for all drives.
struct IoStats {
  std::string engine;  ///< "io_uring" or "threads"
  bool direct = false;
  /// Whether every file system overwrites pages in place, so that no write needs new space.
  bool nocow = false;
  /// Whether the file systems reserved the spill files' space, so that none was written in full.
  bool reserved_space = false;
  std::uint64_t short_io = 0;           ///< attempts that moved a part
  std::uint64_t retries = 0;            ///< attempts repeated after one that moved nothing
  std::uint64_t checksum_failures = 0;  ///< reads that did not verify, repeated ones included
  std::uint64_t merged = 0;             ///< requests that reached the kernel within another one
  /// Features for people: what the kernel granted to io_uring, or "16 threads".
  std::string features;
  /// Bytes of dram registered with the ring, and the reason if that is not all of dram.
  std::uint64_t registered_bytes = 0;
  std::string registered_reason;
  std::uint64_t retired = 0;       ///< retired places of all drives
  std::vector<DriveStats> drives;  ///< none without nvme
};

/// Counters and figures of GetStats. The two maps hold only the links and tiers that exist, and are
/// empty in a child of fork.
struct Stats {
  std::map<std::string, LinkStats> links;  ///< "hbm-dram", "dram-nvme"
  std::map<std::string, TierStats> tiers;  ///< "hbm", "dram", "nvme"
  PrefetchStats prefetch;
  EvictionStats evictions;
  PlanStats plans;
  IoStats io;
  std::vector<FallbackEvent> fallbacks;
  /// Time that threads were blocked in Ticket::Wait and Take, summed, and its two parts
  /// (WaitTimes).
  double stall_seconds = 0;
  double stall_read_seconds = 0;
  double stall_write_seconds = 0;
  /// Bytes of live tensors without padding, now and at most; bytes that page rounding adds now.
  std::uint64_t live_bytes = 0;
  std::uint64_t live_bytes_peak = 0;
  std::uint64_t padding_bytes = 0;
  /// Iterations that did not repeat the schedule of their key.
  std::uint64_t schedule_divergences = 0;
  /// Schedules that newer ones displaced, and iterations too long to be recorded
  /// (RuntimeOptions::schedules_max, recorded_accesses_max).
  std::uint64_t schedules_dropped = 0;
  std::uint64_t iterations_too_long = 0;
  /// Pages that were lost (PageLostEvent).
  std::uint64_t pages_lost = 0;
};

}  // namespace sluice
