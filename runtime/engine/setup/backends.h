#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/worker_pool.h"
#include "io/drives/drive_set.h"
#include "io/store/page_store.h"
#include "numa/node_arenas.h"
#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/emulated_device.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/setup/frame_counts.h"
#include "runtime/engine/setup/home_engine.h"
#include "sluice/events.h"
#include "sluice/options.h"

namespace sluice::engine {

/// Hooks by which a test stands between the engine and its backends.
struct BackendHooks {
  /// Function that is told of a drive that failed, see io::DriveSetOptions.
  std::function<void(io::FencedDrive)> on_drive_fenced;
  /// Rates of the drives, in place of measured ones, see io::DriveSetOptions.
  std::vector<double> drive_rates;
  std::function<std::unique_ptr<io::PageStore>(std::unique_ptr<io::PageStore>)> wrap_store;
  std::function<std::unique_ptr<device::Device>(std::unique_ptr<device::Device>)> wrap_device;
  /// The driver of GPUs instead of this machine's.
  std::function<absl::StatusOr<std::shared_ptr<device::CudaApi>>()> load_cuda;
  /// The nodes to lay dram on instead of those of the machine; a node may be named more than once.
  std::vector<numa::MemoryNode> memory_nodes;
  /// Folder that holds sys, where the node of a GPU is found.
  std::string system_root = "/";
  /// Every event of the core and its answers are kept, to be replayed (EventLog).
  bool record_events = false;
};

/// Backends of a Runtime: arenas, device, workers, store and tiers. Destroyed in the order: home
/// engine, tiers, store, workers, device, arenas.
/// Threads: see the parts.
class Backends {
 public:
  /// Checks the options against each other and the machine, and sets everything up. Errors: those
  /// of Runtime::Create.
  static absl::StatusOr<std::unique_ptr<Backends>> Create(const RuntimeOptions& options,
                                                          const BackendHooks& hooks);

  const TierSet& tiers() const { return *tiers_; }
  base::WorkerPool& workers() { return *workers_; }
  HomeEngine& home_engine() { return *home_engine_; }
  /// The device of hbm; null without one.
  const device::Device* device() const { return device_.get(); }
  /// The device if it is an emulated one, else null.
  device::EmulatedDevice* emulated() const { return emulated_; }
  /// Fallbacks of the memory of hbm or dram since the last call: a change of a tier's frames may
  /// bring some. Threads: any; CheckAllowed one at a time.
  std::vector<FallbackEvent> TakeFallbacks(TierId tier);
  /// Errors: FailedPrecondition when the memory lacks what the options require.
  absl::Status CheckAllowed(TierId tier) const;
  /// Fallbacks of the start.
  const std::vector<FallbackEvent>& fallbacks() const { return fallbacks_; }

 private:
  Backends() = default;

  /// Chooses the GPU that the options ask for, if they do: dram lies on its node. Errors:
  /// FailedPrecondition, InvalidArgument, NotFound, unless the emulated device may stand in.
  absl::Status FindGpu(const RuntimeOptions& options, const BackendHooks& hooks);
  absl::StatusOr<int> ChooseGpu(const CudaOptions& options, const BackendHooks& hooks);
  /// The node nearest to the chosen GPU; none: unknown, or no GPU.
  std::optional<int> NodeOfGpu(std::uint64_t page_bytes, const BackendHooks& hooks) const;
  absl::Status MakeArenas(const RuntimeOptions& options,
                          core::FrameIndex frames,
                          const BackendHooks& hooks);
  absl::Status MakeDevice(const RuntimeOptions& options,
                          const FrameCounts& frames,
                          const BackendHooks& hooks);
  absl::Status MakeEmulatedDevice(const RuntimeOptions& options, core::FrameIndex frames);
  absl::Status MakeCudaDevice(const RuntimeOptions& options, core::FrameIndex frames);
  absl::Status MakeStore(const RuntimeOptions& options,
                         core::FrameIndex frames,
                         const BackendHooks& hooks);
  /// Notes the features that new memory lacks, if the options allow it.
  absl::Status NoteFallbacks(TierId tier);
  /// Reason for which memory is not on 2 MiB pages.
  std::string_view ReasonOf(const std::string& huge_page_reason) const;
  std::vector<FallbackEvent> FallbacksOf(TierId tier) const;
  void MakeTiers(const RuntimeOptions& options, const FrameCounts& frames);

  std::vector<FallbackEvent> fallbacks_;
  MemoryOptions required_;
  base::Mutex announced_mutex_;
  std::set<std::pair<TierId, std::string>> announced_ ABSL_GUARDED_BY(announced_mutex_);
  std::unique_ptr<numa::NodeArenas> arenas_;
  std::shared_ptr<device::CudaApi> cuda_;
  /// Ordinal of the chosen GPU.
  absl::StatusOr<int> gpu_ = absl::NotFoundError("no GPU is asked for");
  std::unique_ptr<device::Device> device_;
  device::EmulatedDevice* emulated_ = nullptr;
  std::unique_ptr<base::WorkerPool> workers_;
  // The store goes before the device: its last callback may still hold a segment of hbm.
  std::unique_ptr<io::PageStore> store_;
  std::unique_ptr<TierSet> tiers_;
  // The home engine goes first: its last callback may still hold a segment.
  std::unique_ptr<HomeEngine> home_engine_;
};

}  // namespace sluice::engine
