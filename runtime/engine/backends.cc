#include "runtime/engine/backends.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "numa/memory_limits.h"

namespace sluice::engine {
namespace {

constexpr double kAllHuge = 0.999;
constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;
/// Mappings that the rest of the process may need.
constexpr std::uint64_t kMappingsKept = 4096;

absl::Status CheckMemory(const RuntimeOptions& options, const FrameCounts& frames) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  const std::uint64_t host_frames = std::uint64_t{frames.dram} + frames.hbm;
  const Bytes wanted = options.page_bytes * host_frames;
  if (wanted > Bytes(limits.available_bytes)) {
    return absl::ResourceExhaustedError(fmt::format(
        "tiers.dram.bytes and the emulated tiers.hbm.bytes take {} of memory, {} are available{}",
        ToString(wanted),
        ToString(Bytes(limits.available_bytes)),
        limits.cgroup ? fmt::format(" (control group {})", limits.cgroup->path) : std::string()));
  }
  // A page mapped at its stable address, and the part of the reserved range that it cuts off.
  const std::uint64_t mappings = 2 * host_frames;
  if (mappings + kMappingsKept > limits.max_map_count) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} pages of {} may need {} mappings and the process {}, vm.max_map_count allows {}: raise "
        "it or use larger pages",
        host_frames,
        ToString(options.page_bytes),
        mappings,
        kMappingsKept,
        limits.max_map_count));
  }
  return absl::OkStatus();
}

FallbackEvent HugePageFallback(std::string_view tier, double share, std::string_view reason) {
  return {"huge_pages",
          fmt::format("{:.0f} % of {} is on 2 MiB pages{}{}",
                      share * 100,
                      tier,
                      reason.empty() ? "" : ": ",
                      reason),
          "4 KiB pages for the rest"};
}

/// Whether all of the memory that could be is on huge pages.
bool AllHuge(double share, std::uint64_t bytes) {
  const std::uint64_t possible = bytes / kHugePageBytes * kHugePageBytes;
  return share * static_cast<double>(bytes) >= kAllHuge * static_cast<double>(possible);
}

}  // namespace

absl::Status Backends::MakeArena(const RuntimeOptions& options, core::FrameIndex frames) {
  numa::ArenaOptions arena;
  arena.page_bytes = options.page_bytes.count();
  arena.frames = frames;
  arena.touch_cpus = options.cpus;
  SLUICE_ASSIGN_OR_RETURN(arena_, numa::Arena::Create(arena));
  if (const std::string& reason = arena_->info().binding_reason; !reason.empty()) {
    fallbacks_.push_back({"numa_binding", reason, "memory of any node"});
  }
  if (auto small = TakeSmallPagesFallback(kDram0)) fallbacks_.push_back(*std::move(small));
  return absl::OkStatus();
}

absl::Status Backends::MakeDevice(const RuntimeOptions& options,
                                  core::FrameIndex frames,
                                  const BackendHooks& hooks) {
  device::EmulatedDeviceOptions emulated;
  emulated.page_bytes = options.page_bytes.count();
  emulated.frames = frames;
  emulated.rates = {options.emulated.in_bytes_per_second,
                    options.emulated.out_bytes_per_second,
                    options.emulated.latency_seconds};
  emulated.cpus = options.cpus;
  SLUICE_ASSIGN_OR_RETURN(auto device, device::EmulatedDevice::Create(emulated));
  emulated_ = device.get();
  device_ = std::move(device);
  if (hooks.wrap_device) device_ = hooks.wrap_device(std::move(device_));
  if (auto small = TakeSmallPagesFallback(kHbm0)) fallbacks_.push_back(*std::move(small));
  return absl::OkStatus();
}

std::optional<FallbackEvent> Backends::TakeSmallPagesFallback(TierId tier) {
  const bool hbm = tier == kHbm0;
  const double share = hbm ? device_->huge_page_share() : arena_->huge_page_share();
  const std::uint64_t bytes = hbm ? device_->frame_count() * device_->page_bytes()
                                  : arena_->frame_count() * arena_->page_bytes();
  if (AllHuge(share, bytes) || !small_pages_announced_.insert(tier).second) return std::nullopt;
  const numa::ArenaInfo& info = hbm ? emulated_->arena_info() : arena_->info();
  return HugePageFallback(hbm ? "the emulated hbm" : "dram", share, info.huge_page_reason);
}

absl::Status Backends::MakeStore(const RuntimeOptions& options,
                                 core::FrameIndex frames,
                                 const BackendHooks& hooks) {
  io::PageStoreOptions store;
  store.directory = options.io.directory;
  store.page_bytes = options.page_bytes.count();
  store.slots = frames;
  store.queue_depth = options.io.queue_depth;
  store.require_io_uring = options.io.require_io_uring;
  store.require_direct = options.io.require_direct;
  store.disable_io_uring = options.io.disable_io_uring;
  store.disable_direct = options.io.disable_direct;
  store.cpus = options.cpus;
  SLUICE_ASSIGN_OR_RETURN(store_, io::PageStore::Create(store, *workers_));
  if (hooks.wrap_store) store_ = hooks.wrap_store(std::move(store_));
  const io::PageStoreStats stats = store_->stats();
  if (stats.engine != "io_uring") {
    fallbacks_.push_back({"io_uring", stats.engine_reason, stats.engine});
  }
  if (!stats.direct) {
    fallbacks_.push_back({"o_direct", stats.direct_reason, "buffered I/O"});
  }
  return absl::OkStatus();
}

void Backends::MakeTiers(const RuntimeOptions& options, const FrameCounts& frames) {
  std::vector<Tier> tiers;
  if (device_ != nullptr) {
    tiers.push_back(Tier{kHbm0, frames.hbm, MakeDeviceTier(*device_)});
  }
  tiers.push_back(Tier{kDram0, frames.dram, MakeHostTier(*arena_)});
  if (store_ != nullptr) tiers.push_back(Tier{kNvme0, frames.nvme, nullptr});
  tiers_ = std::make_unique<TierSet>(
      options.page_bytes.count(), std::move(tiers), device_.get(), store_.get());
}

absl::StatusOr<std::unique_ptr<Backends>> Backends::Create(const RuntimeOptions& options,
                                                           const BackendHooks& hooks) {
  if (options.device == DeviceKind::kCuda) {
    return absl::FailedPreconditionError(
        "this build has no CUDA backend; write device.kind = \"emulated\"");
  }
  SLUICE_ASSIGN_OR_RETURN(const FrameCounts frames, CountFrames(options));
  SLUICE_RETURN_IF_ERROR(CheckMemory(options, frames));
  std::unique_ptr<Backends> backends(new Backends());
  SLUICE_ASSIGN_OR_RETURN(
      backends->workers_,
      base::WorkerPool::Create(
          {.threads = options.worker_threads,
           // Bounded in truth by tasks in flight; the core thread must not block.
           .queue_capacity = std::size_t{1} << 20,
           .cpus = options.cpus}));
  if (frames.nvme > 0) {  // first: a refused spill directory should not cost the touching of arenas
    SLUICE_RETURN_IF_ERROR(backends->MakeStore(options, frames.nvme, hooks));
  }
  SLUICE_RETURN_IF_ERROR(backends->MakeArena(options, frames.dram));
  if (frames.hbm > 0) {
    SLUICE_RETURN_IF_ERROR(backends->MakeDevice(options, frames.hbm, hooks));
  }
  backends->MakeTiers(options, frames);
  return backends;
}

}  // namespace sluice::engine
