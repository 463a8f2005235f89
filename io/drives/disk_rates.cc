#include "io/drives/disk_rates.h"

#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "fmt/format.h"
#include "io/engine/io_engine.h"
#include "io/engine/signals.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"
#include "io/file/wait_for_space.h"

namespace sluice::io {
namespace {

using Clock = std::chrono::steady_clock;

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

enum class Pattern { kRead, kWrite, kMixed };

/// Parts that every measurement shares.
struct Plain {
  const IoFile& file;
  std::byte* memory;  // queue_depth blocks
  std::uint64_t block_bytes;
  std::uint32_t queue_depth;
};

/// One measurement: blocks from the start of the file, round and round, until time or count is up.
struct Goal {
  Pattern pattern = Pattern::kRead;
  std::uint64_t blocks_max = UINT64_MAX;
  Clock::time_point deadline = Clock::time_point::max();

  bool Wants(std::uint64_t block) const { return block < blocks_max && Clock::now() < deadline; }
  bool Writes(std::uint64_t block) const {
    return pattern == Pattern::kWrite || (pattern == Pattern::kMixed && block % 2 == 1);
  }
};

std::uint64_t OffsetOf(const Plain& plain, std::uint64_t block) {
  return block * plain.block_bytes % plain.file.bytes;
}

/// Whether the block counts. A block that was moved in part, or failed for a reason that passes,
/// does not show the disk's speed. Errors: all others.
absl::StatusOr<bool> Counts(const Plain& plain, std::int64_t moved) {
  if (moved >= 0) return moved == static_cast<std::int64_t>(plain.block_bytes);
  const auto error = static_cast<int>(-moved);
  if (error == EINTR || error == EAGAIN || error == ENOMEM) return false;
  // A limit of the process is the user's to raise, and says nothing of the disk.
  if (error == ECANCELED) {
    return absl::ResourceExhaustedError(
        base::ToAbsl(fmt::format("measuring the disk: {}", base::DescribeErrno(error))));
  }
  return base::StatusFromErrno(error, "measuring the disk");
}

/// Returns the number of blocks moved.
class Loop {
 public:
  virtual ~Loop() = default;
  virtual absl::StatusOr<std::uint64_t> Run(const Plain& plain, const Goal& goal) = 0;
};

class RingLoop final : public Loop {
 public:
  static absl::StatusOr<std::unique_ptr<Loop>> Create(std::uint32_t queue_depth) {
    std::unique_ptr<RingLoop> loop(new RingLoop());
    const int error = io_uring_queue_init(queue_depth, &loop->ring_, 0);
    if (error < 0) return base::StatusFromErrno(-error, "io_uring_queue_init");
    loop->usable_ = true;
    const int refused = io_uring_get_events(&loop->ring_);
    if (refused < 0 && refused != -EINTR) return base::StatusFromErrno(-refused, "io_uring_enter");
    return std::unique_ptr<Loop>(std::move(loop));
  }
  ~RingLoop() override {
    if (usable_) io_uring_queue_exit(&ring_);
  }

  absl::StatusOr<std::uint64_t> Run(const Plain& plain, const Goal& goal) override {
    absl::Status status;
    std::uint64_t started = 0;
    std::uint64_t finished = 0;
    std::uint64_t counted = 0;
    for (std::uint32_t i = 0; i < plain.queue_depth && goal.Wants(started); ++i) {
      Prepare(plain, goal, started++, i);
    }
    while (finished < started) {
      const absl::StatusOr<Finished> done = Next();
      if (!done.ok()) {
        Drain(started - finished - io_uring_sq_ready(&ring_));
        return done.status();
      }
      ++finished;
      const absl::StatusOr<bool> counts = Counts(plain, done->moved);
      status.Update(counts.status());
      if (counts.ok() && *counts) ++counted;
      if (status.ok() && goal.Wants(started)) Prepare(plain, goal, started++, done->place);
    }
    if (!status.ok()) return status;
    return counted;
  }

 private:
  RingLoop() = default;

  void Prepare(const Plain& plain, const Goal& goal, std::uint64_t block, std::uint64_t place) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    std::byte* data = plain.memory + place * plain.block_bytes;
    const auto bytes = static_cast<unsigned>(plain.block_bytes);
    const std::uint64_t offset = OffsetOf(plain, block);
    if (goal.Writes(block)) {
      io_uring_prep_write(sqe, plain.file.fd, data, bytes, offset);
    } else {
      io_uring_prep_read(sqe, plain.file.fd, data, bytes, offset);
    }
    io_uring_sqe_set_data64(sqe, place);
  }

  struct Finished {
    std::uint64_t place = 0;  ///< offset in memory
    std::int64_t moved = 0;   ///< bytes, or a negative errno
  };

  /// Waits for one.
  absl::StatusOr<Finished> Next() {
    io_uring_cqe* cqe = nullptr;
    int error = -EINTR;
    while (error == -EINTR) {  // signals of the program interrupt the wait
      error = io_uring_submit(&ring_);
      if (error >= 0) error = io_uring_wait_cqe(&ring_, &cqe);
    }
    if (error < 0) return base::StatusFromErrno(-error, "io_uring_enter");
    const Finished done{.place = io_uring_cqe_get_data64(cqe), .moved = cqe->res};
    io_uring_cqe_seen(&ring_, cqe);
    return done;
  }

  /// Waits for all requests, as the kernel may still use their memory.
  void Drain(std::uint64_t in_flight) {
    io_uring_cqe* cqe = nullptr;
    for (; in_flight > 0; --in_flight) {
      while (io_uring_wait_cqe(&ring_, &cqe) == -EINTR) {
      }
      if (cqe != nullptr) io_uring_cqe_seen(&ring_, std::exchange(cqe, nullptr));
    }
  }

  io_uring ring_{};
  bool usable_ = false;
};

class ThreadLoop final : public Loop {
 public:
  absl::StatusOr<std::uint64_t> Run(const Plain& plain, const Goal& goal) override {
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> finished{0};
    std::vector<absl::Status> statuses(plain.queue_depth);
    std::vector<std::thread> threads;
    absl::Status refused;  // running requests still end near the goal
    for (std::uint32_t i = 0; i < plain.queue_depth && refused.ok(); ++i) {
      auto thread = base::StartThread([&, i] {
        BlockAllSignals();
        statuses[i] = RunOne(plain, goal, plain.memory + i * plain.block_bytes, started, finished);
      });
      refused = thread.status();
      if (thread.ok()) threads.push_back(*std::move(thread));
    }
    for (std::thread& thread : threads) thread.join();
    SLUICE_RETURN_IF_ERROR(refused);
    for (const absl::Status& status : statuses) SLUICE_RETURN_IF_ERROR(status);
    return finished.load();
  }

 private:
  static absl::Status RunOne(const Plain& plain,
                             const Goal& goal,
                             std::byte* data,
                             std::atomic<std::uint64_t>& started,
                             std::atomic<std::uint64_t>& finished) {
    for (std::uint64_t block = started++; goal.Wants(block); block = started++) {
      const auto offset = static_cast<off_t>(OffsetOf(plain, block));
      const ssize_t moved = goal.Writes(block)
                                ? pwrite(plain.file.fd, data, plain.block_bytes, offset)
                                : pread(plain.file.fd, data, plain.block_bytes, offset);
      SLUICE_ASSIGN_OR_RETURN(const bool counts, Counts(plain, moved < 0 ? -errno : moved));
      if (counts) ++finished;
    }
    return absl::OkStatus();
  }
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

std::unique_ptr<Loop> MakeLoop(const DiskRatesOptions& options, DiskRates* rates) {
  rates->engine = "io_uring";
  if (options.io_uring != Use::kOff) {
    auto ring = RingLoop::Create(options.queue_depth);
    if (ring.ok()) return *std::move(ring);
    rates->engine_reason = std::string(base::ToStd(ring.status().message()));
  } else {
    rates->engine_reason = std::string(kOffByOption);
  }
  rates->engine = "threads";
  return std::make_unique<ThreadLoop>();
}

absl::StatusOr<double> Measure(Loop& loop, const Plain& plain, Pattern pattern, std::uint32_t ms) {
  const Clock::time_point start = Clock::now();
  const Goal goal{.pattern = pattern, .deadline = start + std::chrono::milliseconds(ms)};
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t blocks, loop.Run(plain, goal));
  // The time ends with the last completion, so that it covers every byte counted.
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return static_cast<double>(blocks * plain.block_bytes) / elapsed.count();
}

absl::Status MeasureAll(Loop& loop, const Plain& plain, std::uint32_t ms, DiskRates* rates) {
  // Reserved extents that were never written are read without the disk.
  const Goal layout{.pattern = Pattern::kWrite, .blocks_max = plain.file.bytes / plain.block_bytes};
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t written, loop.Run(plain, layout));
  if (written < layout.blocks_max) {
    return absl::UnavailableError("measuring the disk: its file could not be written whole");
  }
  const std::uint32_t part_ms = std::max(ms / kParts, 1U);
  for (std::uint32_t part = 0; part < kParts; ++part) {
    SLUICE_ASSIGN_OR_RETURN(const double write, Measure(loop, plain, Pattern::kWrite, part_ms));
    SLUICE_ASSIGN_OR_RETURN(const double read, Measure(loop, plain, Pattern::kRead, part_ms));
    SLUICE_ASSIGN_OR_RETURN(const double mixed, Measure(loop, plain, Pattern::kMixed, part_ms));
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
  const std::unique_ptr<Loop> loop = MakeLoop(options, &rates);
  const Plain plain{.file = file->file(),
                    .memory = memory->data(),
                    .block_bytes = options.block_bytes,
                    .queue_depth = options.queue_depth};
  SLUICE_RETURN_IF_ERROR(MeasureAll(*loop, plain, options.milliseconds, &rates));
  return rates;
}

}  // namespace sluice::io
