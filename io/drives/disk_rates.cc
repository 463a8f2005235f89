#include "io/drives/disk_rates.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/drives/disk_loops.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"
#include "io/file/wait_for_space.h"

namespace sluice::io {
namespace {

// Parts of each measurement, made in turn. The best part counts: the disk's own speed, not that
// beside its other users.
constexpr std::uint32_t kParts = 3;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Anonymous memory on huge pages where the kernel grants them, filled with noise: a drive may take
/// a short way with zeros.
class NoiseMemory {
 public:
  static absl::StatusOr<std::unique_ptr<NoiseMemory>> Create(std::size_t bytes) {
    auto memory = std::unique_ptr<NoiseMemory>(new NoiseMemory(bytes + kHugePageBytes));
    if (memory->mapping_ == MAP_FAILED) return base::StatusFromErrno(errno, "mmap");
    memory->Fill(bytes);
    return memory;
  }
  ~NoiseMemory() {
    if (mapping_ != MAP_FAILED) munmap(mapping_, mapped_bytes_);
  }
  NoiseMemory(const NoiseMemory&) = delete;
  NoiseMemory& operator=(const NoiseMemory&) = delete;

  std::byte* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    const std::uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    return static_cast<std::byte*>(mapping_) + (aligned - address);
  }

 private:
  explicit NoiseMemory(std::size_t bytes) : mapped_bytes_(bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    mapping_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    // Huge pages are optional: without them the rates are lower, and true for small pages.
    if (mapping_ != MAP_FAILED) madvise(mapping_, bytes, MADV_HUGEPAGE);
  }

  void Fill(std::size_t bytes) {
    std::mt19937_64 noise(1);
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = noise();
      std::memcpy(data() + at, &word, sizeof(word));
    }
  }

  const std::size_t mapped_bytes_;
  void* mapping_ = MAP_FAILED;
};

absl::Status CheckOptions(const DiskRatesOptions& options) {
  const std::uint64_t block = options.block_bytes;
  const bool blocks_fit = block > 0 && block % kIoAlignment == 0 && block <= options.file_bytes &&
                          options.file_bytes % block == 0;
  if (!blocks_fit) {
    return absl::InvalidArgumentError(base::ToAbsl(
        fmt::format("measuring the disk: blocks of {} bytes do not fill a file of {}, or are not "
                    "multiples of {}",
                    block,
                    options.file_bytes,
                    kIoAlignment)));
  }
  if (options.queue_depth == 0 || options.queue_depth > 1024 || options.milliseconds == 0) {
    return absl::InvalidArgumentError(
        "measuring the disk: queue_depth is 1 to 1024, milliseconds at least 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SpillFile>> MakeFile(const SpillDirectory& directory,
                                                    const DiskRatesOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckKeepsFree(directory, options.file_bytes, options.keep_free_bytes));
  return SpillFile::Create(directory, {.bytes = options.file_bytes});
}

std::unique_ptr<DiskLoop> MakeLoop(const DiskRatesOptions& options, DiskRates* rates) {
  rates->engine = "io_uring";
  if (options.io_uring != Use::kOff) {
    auto ring = MakeRingLoop(options.queue_depth);
    if (ring.ok()) return *std::move(ring);
    rates->engine_reason = std::string(base::ToStd(ring.status().message()));
  } else {
    rates->engine_reason = std::string(kOffByOption);
  }
  rates->engine = "threads";
  return MakeThreadLoop();
}

absl::StatusOr<double> Measure(DiskLoop& loop,
                               const DiskTarget& target,
                               DiskPattern pattern,
                               std::uint32_t ms) {
  const auto start = std::chrono::steady_clock::now();
  const DiskGoal goal{.pattern = pattern, .deadline = start + std::chrono::milliseconds(ms)};
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t blocks, loop.Run(target, goal));
  // The time ends with the last completion, so that it covers every byte counted.
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(blocks * target.block_bytes) / elapsed.count();
}

absl::Status MeasureAll(DiskLoop& loop,
                        const DiskTarget& target,
                        std::uint32_t ms,
                        DiskRates* rates) {
  // Reserved extents that were never written are read without the disk.
  const DiskGoal layout{.pattern = DiskPattern::kWrite,
                        .blocks_max = target.file.bytes / target.block_bytes};
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t written, loop.Run(target, layout));
  if (written < layout.blocks_max) {
    return absl::UnavailableError("measuring the disk: its file could not be written whole");
  }
  const std::uint32_t part_ms = std::max(ms / kParts, 1U);
  for (std::uint32_t part = 0; part < kParts; ++part) {
    SLUICE_ASSIGN_OR_RETURN(const double write,
                            Measure(loop, target, DiskPattern::kWrite, part_ms));
    SLUICE_ASSIGN_OR_RETURN(const double read, Measure(loop, target, DiskPattern::kRead, part_ms));
    SLUICE_ASSIGN_OR_RETURN(const double mixed,
                            Measure(loop, target, DiskPattern::kMixed, part_ms));
    rates->write = std::max(rates->write, write);
    rates->read = std::max(rates->read, read);
    rates->mixed = std::max(rates->mixed, mixed);
  }
  if (std::min({rates->write, rates->read, rates->mixed}) > 0) return absl::OkStatus();
  return absl::UnavailableError("measuring the disk: no block was moved whole");
}

}  // namespace

DiskRatesOptions WithinMemory(DiskRatesOptions options) {
  constexpr std::uint32_t kDepthMin = 4;
  const auto fits = [&options] {
    return options.block_bytes * options.queue_depth <= options.memory_bytes_max;
  };
  while (!fits() && options.queue_depth > kDepthMin) options.queue_depth /= 2;
  while (!fits() && options.block_bytes % (2 * kIoAlignment) == 0) options.block_bytes /= 2;
  return options;
}

absl::StatusOr<DiskRates> MeasureDiskRates(const DiskRatesOptions& wanted) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(wanted));
  const DiskRatesOptions options = WithinMemory(wanted);
  SLUICE_ASSIGN_OR_RETURN(const OpenedDirectory directory,
                          OpenUnlessOpened(options.opened, options.directory));
  SLUICE_ASSIGN_OR_RETURN(const auto file,
                          WaitForSpace([&] { return MakeFile(*directory, options); }));
  SLUICE_ASSIGN_OR_RETURN(const auto memory,
                          NoiseMemory::Create(options.block_bytes * options.queue_depth));
  DiskRates rates;
  rates.direct = file->direct();
  rates.direct_reason = file->direct_reason();
  const std::unique_ptr<DiskLoop> loop = MakeLoop(options, &rates);
  const DiskTarget target{.file = file->file(),
                          .memory = memory->data(),
                          .block_bytes = options.block_bytes,
                          .queue_depth = options.queue_depth};
  SLUICE_RETURN_IF_ERROR(MeasureAll(*loop, target, options.milliseconds, &rates));
  return rates;
}

}  // namespace sluice::io
