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

/// Device that hbm is on.
enum class DeviceKind {
  kEmulated,  ///< host memory that stands for hbm
  kCuda,      ///< memory of an NVIDIA GPU
  kAuto,      ///< a GPU, else the emulated device, where the fallback "cuda" says why
};

/// The GPU of a Runtime with a CUDA device. A page_bytes below what the GPU maps at once, 2 MiB, is
/// an InvalidArgument of Create with DeviceKind::kCuda. DeviceKind::kAuto then takes the emulated
/// device.
struct CudaOptions {
  /// Ordinal among the visible GPUs, or the UUID ("GPU-...", "MIG-..."), or the beginning of that.
  /// Empty: the first.
  std::string gpu = {};
  /// Reason for which the program takes no GPU, such as that it computes on the CPU. Then
  /// DeviceKind::kAuto is the emulated device, with this reason. Empty: it takes one.
  std::string why_none = {};
};

/// The emulated device: host memory that stands for hbm, reached by real copies.
struct EmulatedDeviceOptions {
  /// Modelled rate per direction in bytes per second, at least 1; 0: as fast as the host copies.
  double in_bytes_per_second = 0;
  double out_bytes_per_second = 0;
  /// Seconds added to the completion of every copy, at most 1e6. The link is free meanwhile.
  double latency_seconds = 0;
};

/// Options of spill files. queue_depth, bytes_in_flight, io_uring and direct hold for files of
/// FileHome::read_only, too: there kRequire makes the creation of the tensor fail.
struct IoOptions {
  /// Directory of the spill file. Empty: /var/tmp/sluice-<uid>, made with mode 0700. A directory
  /// with a name must exist, belong to the user, and not be writable by group or others.
  std::string directory = {};
  /// A directory on each further drive, with the same rules. The drives share nvme_bytes in
  /// proportion to their rates. A measurement of these takes 0.2 s per drive.
  std::vector<std::string> more_directories = {};
  /// Free space of the file system that the spill file leaves alone; Create fails with
  /// ResourceExhausted if there is too little.
  Bytes keep_free = 1_GiB;
  /// Largest request that io_uring merges adjacent waiting requests into; 0: none.
  Bytes merge = 1_MiB;
  /// Requests in flight per drive, of all processes of a Share, 1 to 1024. A direction of a link
  /// has at most min(queue_depth / 2, max(16, slots / 8)) pages in flight, and at least one. nvme
  /// has a slot for each page of nvme_bytes.
  std::uint32_t queue_depth = 32;
  /// Bytes in flight per drive, of all processes of a Share, at which further requests wait. Two of
  /// each process may always be in flight. Reads of files that are homes have a limit of the same
  /// size. Few disks are faster with more, and a page that is needed now waits for all of them.
  /// Storage behind a network may need more.
  Bytes bytes_in_flight = 8_MiB;
  /// io_uring. Fallback "io_uring": pread and pwrite on threads.
  Use io_uring = Use::kAuto;
  /// O_DIRECT. Fallback "o_direct": buffered I/O.
  Use direct = Use::kAuto;
  /// Pages written in place. Fallback "nocow": the file system copies on write (ZFS, btrfs without
  /// FS_NOCOW_FL). A later write of a page may find no space then. kOff leaves btrfs's flag alone.
  Use nocow = Use::kAuto;
  /// Space of spill files reserved at the start. Fallback "reserved_space": the files are written
  /// in full first. kOff does neither, so writes may find no space.
  Use reserved_space = Use::kAuto;
};

/// Memory of dram and of the emulated hbm. SetBudget announces a lack that shows only when it takes
/// memory again. kRequire makes the call fail instead, and the budget is unchanged.
struct MemoryOptions {
  /// Memory on 2 MiB pages, but for a smaller last part per node. Fallback "huge_pages".
  Use huge_pages = Use::kAuto;
  /// Parts of dram bound to their NUMA nodes. Fallback "numa_binding".
  Use numa_binding = Use::kAuto;
  /// Equal parts of dram on all NUMA nodes. Fallback "numa_split": less on a node with too little
  /// memory. kOff fills one node after the other. With a GPU kAuto and kOff fill its node first.
  Use even_split = Use::kAuto;
  /// Pages of tensors with OffLease::kReadable shown wherever they are. Fallback "off_lease":
  /// reads of pages that cannot be mapped raise SIGSEGV. Pages on FUSE, in a GPU, and of a file
  /// home that begins at no multiple of 4096 bytes are such. Creation of the first such tensor
  /// announces it, and fails with kRequire. kOff shows frames of dram only.
  Use off_lease = Use::kAuto;
  /// Whether addresses of evicted pages stay mapped, which saves time when the pages come back. If
  /// not, a use after the lease faults once the page is gone, in place of reading or writing what
  /// is there now. Unset: true, but false in debug builds of the library.
  std::optional<bool> keep_mappings = {};
};

/// Share of the host for this process: number `index` of `count`. Each process has an equal part,
/// rounded down, of what the options give to the host:
/// - dram_bytes and nvme_bytes, with nvme_bytes / count on the drives together
/// - io.queue_depth and worker_threads, at least 1 of each; io.bytes_in_flight
/// - RLIMIT_MEMLOCK
/// hbm_bytes and all other options hold for each process. `index` is only checked: below `count`.
struct Share {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
};

/// Options of a Runtime. Runtime::Create checks them, and its InvalidArgument names the wrong one.
struct RuntimeOptions {
  /// Unit of residency and transfer in every tier: a power of two, 4 KiB to 64 MiB. 0: 2 MiB. With
  /// DeviceKind::kCuda or kAuto, 0 stands for the largest power of two from 2 to 16 MiB of which
  /// each tier holds at least 256, or for 2 MiB. Runtime::PageBytes gives the size.
  Bytes page_bytes = {};
  /// Hard budgets per tier, staging and pages in flight included, rounded down to whole pages. dram
  /// lies on all NUMA nodes that have processors of this process and that it may allocate from.
  /// Least budgets:
  /// - hbm is 0, or has at least one page. nvme is 0, or has one for each drive.
  /// - dram has at least one page, and 5 beside hbm.
  Bytes hbm_bytes = {};
  Bytes dram_bytes = {};
  /// 0: no spill file and no I/O. Capacity for tensors is the sum of two parts:
  /// - nvme less the pages of writes in flight: min(io.queue_depth / 2, max(16, slots / 8)) pages,
  ///   at least one.
  /// - dram less four pages for transfers, if there is hbm. Tensors that found no room on nvme
  ///   leave at least an eighth of dram to those on nvme.
  /// The spill files of a drive are 1/512 larger, at least a page, to replace places that lose one.
  Bytes nvme_bytes = {};

  DeviceKind device = DeviceKind::kEmulated;
  EmulatedDeviceOptions emulated = {};
  CudaOptions cuda = {};
  IoOptions io = {};
  MemoryOptions memory = {};
  Share share = {};

  /// Name of the policy; docs/policies.md describes them.
  /// - "planned": pages move by a plan, made from the recorded schedule and measured speeds.
  /// - "min", "next-use-cost": victims by the recorded schedule.
  /// - "fifo", "lru", "clock", "lfu", "2q", "arc", "s3fifo", "sieve", "gdsf", "random": victims
  ///   without the schedule.
  std::string policy = "planned";
  /// The program's own policies by name (policy.h). `policy` names one of them, too; TOML keys and
  /// the tools `sluice train` and `sluice lab` know the names above only.
  std::map<std::string, CustomPolicy> custom_policies = {};
  /// Recorded ops ahead for which pages are fetched, beside those of a plan; 0: none.
  std::uint32_t prefetch_ops = 12;
  /// Largest number of iteration keys with a schedule that is kept, at least 1.
  std::uint32_t schedules_max = 64;
  /// Largest number of ops and page accesses in all schedules, at least 1; about 60 bytes each.
  /// The least recently used schedules are dropped beyond it (Stats::schedules_dropped). A longer
  /// iteration is not recorded and has no plan (Stats::iterations_too_long).
  std::uint64_t recorded_accesses_max = std::uint64_t{1} << 23;

  /// Threads that hash, verify and fill pages, of all processes of a Share, at least 1. Copies have
  /// threads of their own.
  int worker_threads = 1;
  /// Processors for the Runtime's threads. Empty: those of the thread that makes the Runtime. The
  /// thread that registers memory with a GPU and those of an optimizer have their maker's.
  std::vector<int> cpus = {};
  /// Requests that may wait for the core thread. Tickets of further ones are just not ready yet.
  std::uint32_t request_queue_capacity = 4096;
  /// Seconds after which a transfer is reported as stalled, or a ticket that waits for another op's
  /// lease, at most 1e6; 0: never.
  double stall_seconds = 10.0;

  /// Debug aid: kOverwrite leases filled with NaN.
  bool fill_overwrite_with_nan = false;

  /// Optional receivers; events.h has the rules for threads and lifetime.
  LogSink log = {};
  EventListener* listener = nullptr;
  TraceSink trace = {};
  /// The question that Create asks in its thread while it writes spill files in full. After true,
  /// Create gives Cancelled and leaves nothing.
  std::function<bool()> stop = {};
};

/// Reads the runtime's keys of `config`: page_bytes, device, tiers.*, memory.*, io.*, scheduler.*,
/// workers.*, request_queue_capacity, stall_seconds. docs/configuration.md lists them, and the
/// fields without a key. The caller reads its own keys and then calls Config::Finish.
/// Errors: InvalidArgument (names key, value and what is allowed).
absl::StatusOr<RuntimeOptions> ReadRuntimeOptions(Config& config);

}  // namespace sluice
