#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "numa/memory_limits.h"
#include "numa/memory_nodes.h"
#include "numa/topology.h"
#include "sluice/options.h"
#include "tools/doctor/section.h"
#include "tools/train/settings/memory_check.h"
#include "workloads/gpt/compute/compute_rate.h"

/// Facts that doctor finds out, by section, with functions that read them and that describe them.
/// Reading has no lasting effect; describing is pure. `root` replaces "/" in tests.

namespace sluice::device {
class CudaApi;
}

namespace sluice::tools {

struct CpuFacts {
  std::string model;
  int allowed = 0;                ///< processors that this process may run on
  std::vector<std::string> simd;  ///< instruction sets, best first
};
CpuFacts ReadCpu(const std::string& root = "");
Section DescribeCpu(const CpuFacts& facts);

/// Matrix products on one thread for each processor of this process. Takes about 0.1 s. Errors:
/// ResourceExhausted (a thread is refused).
absl::StatusOr<gpt::ComputeRate> ReadCompute();
Section DescribeCompute(const absl::StatusOr<gpt::ComputeRate>& rate);

/// Nodes that dram is on.
struct DramNodeFacts {
  std::vector<numa::MemoryNode> nodes;  ///< empty: not known
  /// Reason why memory is not bound to the nodes; empty if it is.
  std::string binding_reason;
};
/// Takes a page on each node for a moment.
DramNodeFacts ReadDramNodes(const absl::StatusOr<numa::Topology>& topology);

Section DescribeNuma(const absl::StatusOr<numa::Topology>& topology);

Section DescribeMemory(const absl::StatusOr<numa::MemoryLimits>& limits);
Section DescribeLimits(const absl::StatusOr<numa::MemoryLimits>& limits);
/// The most bytes of hbm and dram frames that vm.max_map_count is enough for, page by page.
std::uint64_t MappableBytes(std::uint64_t max_map_count, std::uint64_t page_bytes);

struct HugePageFacts {
  std::string enabled;         ///< transparent_hugepage/enabled
  std::string shmem_enabled;   ///< transparent_hugepage/shmem_enabled
  std::uint64_t reserved = 0;  ///< nr_hugepages
  double arena_share = 0;      ///< share that a small arena got
  std::string reason;          ///< reason why not all pages are huge; empty if all are
};
/// Tries an arena of 16 MiB, or of less than `bytes_max`.
HugePageFacts ReadHugePages(const std::string& root = "", std::uint64_t bytes_max = UINT64_MAX);
Section DescribeHugePages(const HugePageFacts& facts);

struct IoUringFacts {
  bool available = false;
  std::string reason;          ///< reason why there is no ring
  bool single_issuer = false;  ///< SINGLE_ISSUER with DEFER_TASKRUN
  std::vector<std::string> features;
  std::vector<std::string> operations;  ///< operations of the page store that the kernel has
};
IoUringFacts ReadIoUring();
Section DescribeIoUring(const IoUringFacts& facts);

struct SpillFacts {
  std::string directory;
  absl::Status status;  ///< reason why no spill file can be made; the other fields are then empty
  std::string file_system;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::string direct_reason;          ///< reason against O_DIRECT; empty if it works
  std::string nocow_reason;           ///< reason why pages are copied on write; empty: none are
  std::string reserved_space_reason;  ///< reason why files are written in full; empty: none are
  std::optional<std::uint32_t>
      memory_align;  ///< alignment that statx tells; none: it does not tell
  std::optional<std::uint32_t> offset_align;
};
/// `directory` as in tiers.nvme.directory. A file is made there as a Runtime with `options` makes
/// its own.
SpillFacts ReadSpill(const std::string& directory, const RuntimeOptions& options = {});
/// Judges all directories of a Runtime with `options`: whether each can be used, and has room for
/// its part of nvme. `first` takes the place of tiers.nvme.directory. Measures several drives, for
/// about 0.2 s each. Errors: those of Runtime::Create.
absl::Status CheckDirectories(const std::string& first, const RuntimeOptions& options);
Section DescribeSpill(const SpillFacts& facts);

struct GpuDevice {
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< memory that no program has taken; 0: unknown
  std::string link;              ///< PCI link: "32.0 GT/s x16"; empty: unknown
  std::string compute;           ///< compute capability: "9.0"
  std::string cuda;              ///< newest CUDA of the driver: "13.0"
  int node = -1;                 ///< NUMA node of its PCI slot; -1: unknown
  std::string pci;               ///< PCI address
  std::string unusable;          ///< reason why it cannot hold a tier; empty when it can
};
struct GpuFacts {
  std::vector<std::string> pci;  ///< addresses of NVIDIA display and 3D controllers
  std::string driver;            ///< version of the kernel driver; empty: not loaded
  std::vector<GpuDevice> devices;
  std::string reason;  ///< reason why no device can be used; empty if one can
};
GpuFacts ReadGpu(const std::string& root = "");
/// Reads one GPU. Returns why the driver does not describe it; empty if it does.
std::string ReadGpuDevice(const std::string& root,
                          device::CudaApi& api,
                          int ordinal,
                          GpuDevice* device);
Section DescribeGpu(const GpuFacts& facts);

struct Facts {
  CpuFacts cpu;
  absl::StatusOr<gpt::ComputeRate> compute = absl::UnknownError("not measured");
  absl::StatusOr<numa::Topology> topology = absl::UnknownError("not read");
  absl::StatusOr<numa::MemoryLimits> limits = absl::UnknownError("not read");
  DramNodeFacts dram_nodes;
  HugePageFacts huge_pages;
  IoUringFacts io_uring;
  SpillFacts spill;
  GpuFacts gpu;
  RunNeeds needs;  ///< needs of the job whose budgets are proposed
  std::string job = "a job like the shipped ones";
  /// Whether the job's own budgets suffice and fit, with the message of train. None: no job.
  std::optional<absl::Status> job_fits;
};
/// Features that a run on this machine will use, with the reasons. Then the fallbacks among them,
/// each with the key that forbids it, if there is one.
Section DescribeChoices(const Facts& facts);

/// Rates of the links. Takes about two seconds, 256 MiB of the spill directory's space, and at most
/// 128 MiB or an eighth of the memory that is available. Errors: those of the measurements.
absl::StatusOr<Section> MeasureLinks(const std::string& directory);

}  // namespace sluice::tools
