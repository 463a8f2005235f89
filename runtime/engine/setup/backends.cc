#include "runtime/engine/setup/backends.h"

#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "numa/huge_pages.h"
#include "numa/topology.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver_api.h"
#include "runtime/engine/report/fill_report.h"
#include "runtime/engine/report/memory_fallbacks.h"
#include "runtime/engine/setup/memory_needs.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::engine {

namespace {

/// Whether all of the memory that could be is on huge pages, which are whole.
bool AllHuge(const device::Device& device) {
  const std::uint64_t bytes = device.frame_count() * device.page_bytes();
  const std::uint64_t possible = bytes / numa::kHugePageBytes * numa::kHugePageBytes;
  return device.huge_page_share() * static_cast<double>(bytes) + numa::kHugePageBytes / 2 >=
         static_cast<double>(possible);
}

absl::StatusOr<std::unique_ptr<io::PageStore>> CreateStore(const io::PageStoreOptions& store,
                                                           const IoOptions& io,
                                                           const BackendHooks& hooks,
                                                           base::WorkerPool& workers) {
  if (io.more_directories.empty()) return io::PageStore::Create(store, workers);
  io::DriveSetOptions drives{.store = store,
                             .directories = {io.directory},
                             .rates = hooks.drive_rates,
                             .on_fenced = hooks.on_drive_fenced};
  for (const std::string& directory : io.more_directories) drives.directories.push_back(directory);
  return io::CreateDriveSet(drives, workers);
}

/// Whether the machine has no GPU that such a Runtime could use. A GPU that is full is one.
bool IsNoGpu(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

absl::StatusOr<std::vector<numa::MemoryNode>> NodesForDram(const BackendHooks& hooks) {
  if (!hooks.memory_nodes.empty()) return hooks.memory_nodes;
  SLUICE_ASSIGN_OR_RETURN(const numa::Topology topology, numa::DiscoverTopology());
  return numa::ListMemoryNodes(topology);
}

}  // namespace

absl::Status Backends::FindGpu(const RuntimeOptions& options, const BackendHooks& hooks) {
  if (options.device == DeviceKind::kEmulated) return absl::OkStatus();
  gpu_ = ChooseGpu(options.cuda, hooks);
  const bool may_lack = options.device == DeviceKind::kAuto && IsNoGpu(gpu_.status());
  return may_lack ? absl::OkStatus() : gpu_.status();
}

absl::StatusOr<int> Backends::ChooseGpu(const CudaOptions& options, const BackendHooks& hooks) {
  if (!options.why_none.empty()) return absl::FailedPreconditionError(options.why_none);
  SLUICE_ASSIGN_OR_RETURN(cuda_, hooks.load_cuda ? hooks.load_cuda() : device::LoadCudaApi());
  return device::ChooseGpu(*cuda_, options.gpu);
}

std::optional<int> Backends::NodeOfGpu(std::uint64_t page_bytes, const BackendHooks& hooks) const {
  if (!gpu_.ok()) return std::nullopt;
  device::CudaDeviceFacts facts;
  const device::CudaCode code = cuda_->DescribeDevice(*gpu_, &facts);
  const bool usable = code == device::kCudaSuccess && WhyNotUsable(facts, page_bytes).empty();
  return usable ? numa::NodeOfPci(facts.pci_address, hooks.system_root) : std::nullopt;
}

absl::Status Backends::MakeArenas(const RuntimeOptions& options,
                                  core::FrameIndex frames,
                                  const BackendHooks& hooks) {
  numa::NodeArenasOptions arenas;
  arenas.page_bytes = options.page_bytes.count();
  arenas.frames = frames;
  arenas.cpus = options.cpus;
  arenas.huge_pages = options.memory.huge_pages != Use::kOff;
  arenas.bind = options.memory.numa_binding != Use::kOff;
  arenas.even = options.memory.even_split != Use::kOff;
  SLUICE_ASSIGN_OR_RETURN(arenas.nodes, NodesForDram(hooks));
  if (options.memory.even_split != Use::kRequire) {
    arenas.first_node = NodeOfGpu(arenas.page_bytes, hooks);
  }
  SLUICE_ASSIGN_OR_RETURN(arenas_, numa::NodeArenas::Create(arenas));
  return NoteFallbacks(kDram0);
}

absl::Status Backends::MakeDevice(const RuntimeOptions& options,
                                  const FrameCounts& frames,
                                  const BackendHooks& hooks) {
  absl::Status made;
  if (options.device != DeviceKind::kEmulated) made = MakeCudaDevice(options, frames.hbm);
  if (options.device == DeviceKind::kAuto && IsNoGpu(made)) {
    fallbacks_.push_back({"cuda", std::string(base::ToStd(made.message())), "the emulated device"});
    made = CheckEmulatedHbm(options, frames);
  }
  SLUICE_RETURN_IF_ERROR(made);
  if (device_ == nullptr) SLUICE_RETURN_IF_ERROR(MakeEmulatedDevice(options, frames.hbm));
  if (hooks.wrap_device) device_ = hooks.wrap_device(std::move(device_));
  return NoteFallbacks(kHbm0);
}

absl::Status Backends::MakeCudaDevice(const RuntimeOptions& options, core::FrameIndex frames) {
  device::CudaDeviceOptions cuda{
      .page_bytes = options.page_bytes.count(), .frames = frames, .cpus = options.cpus};
  SLUICE_ASSIGN_OR_RETURN(cuda.ordinal, gpu_);
  SLUICE_ASSIGN_OR_RETURN(device_, device::MakeCudaDevice(*cuda_, cuda));
  return absl::OkStatus();
}

absl::Status Backends::MakeEmulatedDevice(const RuntimeOptions& options, core::FrameIndex frames) {
  device::EmulatedHbmOptions emulated;
  emulated.page_bytes = options.page_bytes.count();
  emulated.frames = frames;
  emulated.rates = {options.emulated.in_bytes_per_second,
                    options.emulated.out_bytes_per_second,
                    options.emulated.latency_seconds};
  emulated.cpus = options.cpus;
  emulated.huge_pages = options.memory.huge_pages != Use::kOff;
  SLUICE_ASSIGN_OR_RETURN(auto device, device::EmulatedDevice::Create(emulated));
  emulated_ = device.get();
  device_ = std::move(device);
  return absl::OkStatus();
}

std::string_view Backends::ReasonOf(const std::string& huge_page_reason) const {
  return required_.huge_pages == Use::kOff ? kOffByOption : std::string_view(huge_page_reason);
}

std::vector<FallbackEvent> Backends::FallbacksOf(TierId tier) const {
  std::vector<FallbackEvent> lacking;
  if (tier == kHbm0) {
    if (emulated_ == nullptr || AllHuge(*device_)) return lacking;
    return {SmallPages("the emulated hbm",
                       device_->huge_page_share(),
                       ReasonOf(emulated_->arena_info().huge_page_reason))};
  }
  const numa::NodeArenasInfo& info = arenas_->info();
  if (!info.binding_reason.empty()) {
    lacking.push_back({std::string(kBindingFallback), info.binding_reason, "memory of any node"});
  }
  if (!info.split_reason.empty()) {
    lacking.push_back({std::string(kSplitFallback), info.split_reason, info.split});
  }
  if (!arenas_->all_huge()) {
    lacking.push_back(
        SmallPages("dram", arenas_->huge_page_share(), ReasonOf(info.huge_page_reason)));
  }
  // The reason counts also for memory that a larger budget takes again.
  const std::string reason =
      tiers_ == nullptr ? "" : tiers_->memory(*tiers_->IndexOf(kDram0))->unregistered_reason();
  if (!reason.empty()) {
    lacking.push_back(
        {"pinned_memory", reason, "copies that stop at memory the GPU does not know"});
  }
  return lacking;
}

std::vector<FallbackEvent> Backends::TakeFallbacks(TierId tier) {
  std::vector<FallbackEvent> lacking = FallbacksOf(tier);
  const base::MutexLock lock(announced_mutex_);
  std::erase_if(lacking,
                [&](const FallbackEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(announced_mutex_) {
                  return !announced_.emplace(tier, event.what).second;
                });
  return lacking;
}

absl::Status Backends::CheckAllowed(TierId tier) const {
  for (const FallbackEvent& event : FallbacksOf(tier)) {
    SLUICE_RETURN_IF_ERROR(engine::CheckAllowed(required_, event));
  }
  return absl::OkStatus();
}

absl::Status Backends::NoteFallbacks(TierId tier) {
  SLUICE_RETURN_IF_ERROR(CheckAllowed(tier));
  for (FallbackEvent& event : TakeFallbacks(tier)) fallbacks_.push_back(std::move(event));
  return absl::OkStatus();
}

absl::Status Backends::MakeStore(const RuntimeOptions& options,
                                 core::FrameIndex frames,
                                 const BackendHooks& hooks) {
  io::PageStoreOptions store;
  store.directory = options.io.directory;
  store.page_bytes = options.page_bytes.count();
  store.slots = frames;
  store.queue_depth = options.io.queue_depth;
  store.bytes_in_flight_max = options.io.bytes_in_flight.count();
  store.merge_bytes_max = options.io.merge.count();
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  store.registered_bytes_max = LockedBytesMax(limits, options);
  store.keep_free_bytes = options.io.keep_free.count();
  store.io_uring = options.io.io_uring;
  store.direct = options.io.direct;
  store.nocow = options.io.nocow;
  store.reserved_space = options.io.reserved_space;
  store.on_fill = [report = std::make_shared<FillReport>(options.log)](
                      const io::FillProgress& progress) { report->Tell(progress); };
  store.stop_fill = options.stop;
  store.cpus = options.cpus;
  SLUICE_ASSIGN_OR_RETURN(store_, CreateStore(store, options.io, hooks, *workers_));
  if (hooks.wrap_store) store_ = hooks.wrap_store(std::move(store_));
  const io::PageStoreStats stats = store_->stats();
  if (stats.engine != "io_uring") {
    fallbacks_.push_back({"io_uring", stats.engine_reason, stats.engine});
  }
  if (!stats.direct) {
    fallbacks_.push_back({"o_direct", stats.direct_reason, "buffered I/O"});
  }
  if (!stats.nocow) {
    fallbacks_.push_back({"nocow", stats.nocow_reason, "copies, for which space may run out"});
  }
  if (!stats.reserved_space) {
    fallbacks_.push_back({"reserved_space",
                          stats.reserved_space_reason,
                          options.io.reserved_space == Use::kOff
                              ? "sparse files, for which space may run out"
                              : "spill files written in full first"});
  }
  return absl::OkStatus();
}

void Backends::MakeTiers(const RuntimeOptions& options, const FrameCounts& frames) {
  const bool keeps = options.memory.keep_mappings.value_or(KeepsMappingsUnlessTold());
  const LeftMapping of_hbm = keeps ? LeftMapping::kStays : LeftMapping::kGoes;
  const LeftMapping of_dram = keeps ? LeftMapping::kUntilTaken : LeftMapping::kGoes;
  std::vector<Tier> tiers;
  if (device_ != nullptr) {
    tiers.push_back(Tier{kHbm0, frames.hbm, MakeDeviceTier(*device_), of_hbm});
  }
  tiers.push_back(
      Tier{kDram0, frames.dram, MakeHostTier(*arenas_, store_.get(), device_.get()), of_dram});
  // The last tier has no frames without nvme, and dram is as low as pages get.
  tiers.push_back(Tier{kNvme0, frames.nvme, nullptr});
  tiers_ = std::make_unique<TierSet>(
      options.page_bytes.count(), std::move(tiers), device_.get(), store_.get());
  for (FallbackEvent& event : TakeFallbacks(kDram0)) fallbacks_.push_back(std::move(event));
}

absl::StatusOr<std::unique_ptr<Backends>> Backends::Create(const RuntimeOptions& options,
                                                           const BackendHooks& hooks) {
  SLUICE_ASSIGN_OR_RETURN(const FrameCounts frames, CountFrames(options));
  SLUICE_RETURN_IF_ERROR(CheckMachine(options, frames));
  std::unique_ptr<Backends> backends(new Backends());
  backends->required_ = options.memory;
  backends->home_engine_ = std::make_unique<HomeEngine>(options.io, options.cpus);
  SLUICE_ASSIGN_OR_RETURN(
      backends->workers_,
      base::WorkerPool::Create(
          {.threads = options.worker_threads,
           // Far above the tasks in flight, which bound the queue: the core thread must not block.
           .queue_capacity = std::size_t{1} << 20,
           .cpus = options.cpus}));
  // The store comes first: if the spill directory is refused, no time was spent touching arenas.
  if (frames.nvme > 0) {
    SLUICE_RETURN_IF_ERROR(backends->MakeStore(options, frames.nvme, hooks));
  }
  if (frames.hbm > 0) SLUICE_RETURN_IF_ERROR(backends->FindGpu(options, hooks));
  SLUICE_RETURN_IF_ERROR(backends->MakeArenas(options, frames.dram, hooks));
  if (frames.hbm > 0) {
    SLUICE_RETURN_IF_ERROR(backends->MakeDevice(options, frames, hooks));
  }
  backends->MakeTiers(options, frames);
  return backends;
}

}  // namespace sluice::engine
