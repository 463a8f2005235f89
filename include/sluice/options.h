#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/config.h"
#include "sluice/events.h"
#include "sluice/policy.h"
#include "sluice/units.h"
#include "sluice/use.h"

/// Options of a Runtime:
///
///   using namespace sluice::literals;
///   sluice::RuntimeOptions options;
///   options.page_bytes = 2_MiB;
///   options.hbm_bytes = 1_GiB;    // 0: no device
///   options.dram_bytes = 8_GiB;
///   options.nvme_bytes = 64_GiB;  // 0: no spill file
///   options.policy = "lru";
///   auto runtime = sluice::Runtime::Create(options);

namespace sluice {

enum class DeviceKind { kEmulated };

/// The emulated device: host memory that stands for HBM, reached by real copies.
struct EmulatedDeviceOptions {
  /// Modelled rate per direction in bytes per second, at least 1; 0 copies as fast as the host can.
  double in_bytes_per_second = 0;
  double out_bytes_per_second = 0;
  /// Added to the completion of every copy, at most 1e6; does not occupy the link.
  double latency_seconds = 0;
};

struct IoOptions {
  /// Directory of the spill file; empty means /var/tmp/sluice-<uid>, which is made 0700. One that
  /// is named must exist, belong to the user and not be writable by group or others.
  std::string directory = {};
  /// Further drives, a directory of each, with the same rules: tiers.nvme.bytes is divided among
  /// all in proportion to their rates, which takes about 0.2 s each to measure, and pages are
  /// written in proportion to the rates that they show.
  std::vector<std::string> more_directories = {};
  /// Free space of the directory's file system that is left alone: Create fails with
  /// ResourceExhausted before the spill file takes that.
  Bytes keep_free = 1_GiB;
  /// Waiting requests of adjacent pages become one request of the kernel, up to this size; 0 bytes:
  /// none do. Only with io_uring.
  Bytes merge = 1_MiB;
  /// Requests in flight per ring, 1 to 1024. Half of it is what each direction of a link has in
  /// flight at most (less where an eighth of nvme would be kept free for that).
  std::uint32_t queue_depth = 32;
  /// io_uring; else pread and pwrite on threads ("io_uring").
  Use io_uring = Use::kAuto;
  /// O_DIRECT; else buffered I/O ("o_direct").
  Use direct = Use::kAuto;
  /// Pages written in place. Where the file system writes each new version of a page to a new place
  /// (btrfs without FS_NOCOW_FL, ZFS), reserved space covers the first write of a page only, so a
  /// later write may find none ("nocow"). kOff leaves the flag of btrfs alone.
  Use nocow = Use::kAuto;
  /// Space of spill files reserved at once; else they are written in full first
  /// ("reserved_space"). kOff does neither: writes may find no space.
  Use reserved_space = Use::kAuto;
};

/// The memory of dram and of the emulated hbm. A lack that shows only when SetBudget takes memory
/// again is announced then; where it is required, SetBudget fails and the budget stays.
struct MemoryOptions {
  /// All memory on 2 MiB pages, but for a last part of less on each node ("huge_pages").
  Use huge_pages = Use::kAuto;
  /// Each part of dram bound to its NUMA node ("numa_binding").
  Use numa_binding = Use::kAuto;
  /// As much of dram on one NUMA node as on another, rather than less on one that has too little
  /// memory left ("numa_split"). kOff fills one node after the other.
  Use even_split = Use::kAuto;
};

/// The part of one host that belongs to this process (index of count); host budgets are divided.
struct Share {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
};

struct RuntimeOptions {
  /// Unit of residency and transfer in every tier: a power of two, 4 KiB to 64 MiB.
  Bytes page_bytes = 2_MiB;
  /// Hard limits per kind, staging and in-flight pages included; rounded down to whole pages.
  /// dram lies on all NUMA nodes that have processors of this process and that it may allocate from
  /// (cpuset, numactl --membind), in even shares.
  Bytes hbm_bytes = {};
  Bytes dram_bytes = {};
  /// 0: no nvme, no spill file, no I/O; tensors then stay in dram, which takes them all but for
  /// four pages that are kept for transfers. Where nvme is too small for all tensors, the rest
  /// stays in dram, too: as much as is left beside these four pages and an eighth of dram, which
  /// other pages need. Tensors get all but what writes in flight need: as many pages as half of
  /// io.queue_depth, but no more than 16 or an eighth of nvme (whichever is more). The spill files
  /// are 1/512 larger, at least a page each, to make up for slots that lose a page.
  Bytes nvme_bytes = {};

  DeviceKind device = DeviceKind::kEmulated;
  EmulatedDeviceOptions emulated = {};
  IoOptions io = {};
  MemoryOptions memory = {};
  Share share = {};

  /// "planned": as soon as an iteration has repeated, pages move by a plan made from the recorded
  /// schedule, measured times and link speeds. Others only say whom to evict: "min" and
  /// "next-use-cost" by the recorded schedule (before there is one, what was used longest ago);
  /// "fifo", "lru", "clock", "lfu", "2q", "arc", "s3fifo", "sieve", "gdsf" and "random" without
  /// knowing it. docs/policies.md describes them.
  std::string policy = "planned";
  /// Policies of the program's own, by the name that `policy` then takes. See policy.h.
  std::map<std::string, CustomPolicy> custom_policies = {};
  /// How many recorded ops ahead page-ins are started, besides those of a plan; 0: none are.
  std::uint32_t prefetch_ops = 12;
  /// Iteration keys whose schedule is kept, the most recent ones; at least 1.
  std::uint32_t schedules_max = 64;
  /// Ops and pages that they access, in all schedules that are kept and once more in the iteration
  /// that runs; about 60 bytes each, at least 1. Beyond it the least recently used schedules are
  /// dropped; an iteration that alone is longer is not recorded, so nothing is planned or fetched
  /// ahead for it. Stats::schedules_dropped and iterations_too_long count; the log says each once.
  std::uint64_t recorded_accesses_max = std::uint64_t{1} << 23;

  /// Threads that hash and copy, and the processors that all internal threads may use (empty:
  /// those of the thread that makes the Runtime); each is one that this process may run on.
  int worker_threads = 1;
  std::vector<int> cpus = {};
  /// Requests that may wait for the core thread; beyond it tickets are simply not ready yet.
  std::uint32_t request_queue_capacity = 4096;
  /// A transfer that takes longer is reported as stalled; at most 1e6, 0: none is.
  double stall_seconds = 10.0;

  /// Debug aids: overwrite leases are filled with NaN, and the event stream is kept for replay.
  bool fill_overwrite_with_nan = false;
  bool record_events = false;

  /// All optional. See events.h for threads and lifetime.
  LogSink log = {};
  EventListener* listener = nullptr;
  TraceSink trace = {};
  /// Asked by Create, in its thread, while it writes spill files in full; true: Create gives
  /// Cancelled, and leaves nothing.
  std::function<bool()> stop = {};
};

/// Reads the runtime's keys (page_bytes, device, tiers.*, memory.*, io.*, scheduler.*, workers.*)
/// of `config`; keys of others are left alone. Errors: InvalidArgument that names key, value and
/// what is allowed.
absl::StatusOr<RuntimeOptions> ReadRuntimeOptions(Config& config);

}  // namespace sluice
