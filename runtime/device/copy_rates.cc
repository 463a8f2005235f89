#include "runtime/device/copy_rates.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "numa/arena.h"
#include "runtime/device/page_copy.h"

namespace sluice::device {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Copies pages round and round until told to stop, one at least, so that there is a rate.
class PlainLoop {
 public:
  PlainLoop(const numa::Arena& source, const numa::Arena& target)
      : source_(source), target_(target) {}

  void Run(const std::atomic<bool>& stop) {
    bytes_ = 0;
    const std::uint64_t page_bytes = source_.page_bytes();
    std::uint32_t page = 0;
    do {
      CopyPage(target_.Frame(page), source_.Frame(page));
      bytes_ += page_bytes;
      page = (page + 1) % source_.frame_count();
    } while (!stop);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const numa::Arena& source_;
  const numa::Arena& target_;
  std::uint64_t bytes_ = 0;
};

/// Bytes per second of the loops, each on a thread, all at once.
absl::StatusOr<double> RunLoops(const PlainCopyOptions& options,
                                const std::vector<PlainLoop*>& loops) {
  std::atomic<bool> stop = false;
  std::latch ready(static_cast<std::ptrdiff_t>(loops.size()) + 1);
  std::vector<std::thread> threads;
  absl::Status status;
  for (PlainLoop* loop : loops) {
    auto thread = base::StartThread([&, loop] {
      base::SetUpThread("sluice-measure", options.cpus);
      ready.arrive_and_wait();
      loop->Run(stop);
    });
    status.Update(thread.status());
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      ready.count_down();  // nobody waits for it
    }
  }
  ready.arrive_and_wait();
  const Clock::time_point start = Clock::now();
  if (status.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(options.milliseconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  SLUICE_RETURN_IF_ERROR(status);
  const double seconds = SecondsSince(start);
  std::uint64_t bytes = 0;
  for (const PlainLoop* loop : loops) bytes += loop->bytes();
  return static_cast<double>(bytes) / seconds;
}

/// Keeps `depth` copies of one direction in flight until a deadline, then drains.
class DeviceLoop {
 public:
  /// Starts copy number `index`.
  using StartFn = std::function<void(std::uint64_t index, DoneFn done)>;

  DeviceLoop(StartFn start, std::uint32_t depth) : start_(std::move(start)), depth_(depth) {}

  /// Starts at least one copy, so that the slowest link has a rate.
  void Run(Clock::time_point deadline) {
    std::uint64_t index = 0;
    do {
      start_(index++, [this](const absl::Status& status) { Completed(status); });
    } while (WaitForRoom(deadline));
    base::MutexLock lock(mutex_);
    while (completed_ < index) changed_.Wait(mutex_);
  }

  std::uint64_t completed() const {
    base::MutexLock lock(mutex_);
    return completed_;
  }
  Clock::time_point last_completed() const {
    base::MutexLock lock(mutex_);
    return last_completed_;
  }
  absl::Status status() const {
    base::MutexLock lock(mutex_);
    return status_;
  }

 private:
  bool WaitForRoom(Clock::time_point deadline) {
    base::MutexLock lock(mutex_);
    ++started_;
    while (started_ - completed_ >= depth_) changed_.Wait(mutex_);
    return status_.ok() && Clock::now() < deadline;
  }

  void Completed(const absl::Status& status) {
    base::MutexLock lock(mutex_);
    ++completed_;
    last_completed_ = Clock::now();
    if (!status.ok()) status_ = status;
    changed_.NotifyAll();
  }

  const StartFn start_;
  const std::uint32_t depth_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point last_completed_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

/// Directions that one measurement runs.
struct Directions {
  bool in = false;
  bool out = false;
};

absl::StatusOr<double> RunOnDevice(Device& device,
                                   const DeviceCopyOptions& options,
                                   Directions directions) {
  const std::size_t frames = options.frames.size() / 2;
  const std::size_t pages = options.host.size() / 2;
  auto start_in = [&](std::uint64_t index, DoneFn done) {
    device.CopyIn(options.host[index % pages], options.frames[index % frames], std::move(done));
  };
  auto start_out = [&](std::uint64_t index, DoneFn done) {
    device.CopyOut(options.frames[frames + index % frames],
                   options.host[pages + index % pages],
                   std::move(done));
  };
  DeviceLoop in(start_in, options.depth);
  DeviceLoop out(start_out, options.depth);
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + std::chrono::milliseconds(options.milliseconds);
  std::thread other;
  if (directions.out) {
    SLUICE_ASSIGN_OR_RETURN(other, base::StartThread([&] { out.Run(deadline); }));
  }
  if (directions.in) in.Run(deadline);
  if (other.joinable()) other.join();
  SLUICE_RETURN_IF_ERROR(in.status());
  SLUICE_RETURN_IF_ERROR(out.status());
  const Clock::time_point end = std::max(in.last_completed(), out.last_completed());
  const std::uint64_t bytes = (in.completed() + out.completed()) * device.page_bytes();
  return static_cast<double>(bytes) / std::chrono::duration<double>(end - start).count();
}

absl::Status CheckOptions(const Device& device, const DeviceCopyOptions& options) {
  if (options.frames.size() < 2 || options.host.size() < 2 || options.depth == 0 ||
      options.milliseconds == 0) {
    return absl::InvalidArgumentError(
        "measuring copies needs two frames, two host pages, a depth and a time");
  }
  for (const std::span<std::byte> page : options.host) {
    if (page.size() != device.page_bytes()) {
      return absl::InvalidArgumentError("measuring copies needs host pages of page_bytes each");
    }
  }
  return absl::OkStatus();
}

}  // namespace

PlainCopyOptions PlainCopiesWithin(std::uint64_t page_bytes, std::uint64_t memory_bytes) {
  constexpr std::uint64_t kArenas = 4;
  constexpr std::uint64_t kArenaBytesMax = std::uint64_t{32} << 20;
  constexpr std::uint64_t kPageBytesMin = 4096;
  constexpr std::uint64_t kPagesMin = 2;
  // An arena is a file without a name.
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0;
  const std::uint64_t file_bytes = known ? limit.rlim_cur : RLIM_INFINITY;
  const std::uint64_t arena = std::clamp(
      std::min(memory_bytes / kArenas, file_bytes), kPagesMin * kPageBytesMin, kArenaBytesMax);
  const std::uint64_t page = std::min(page_bytes, std::bit_floor(arena / kPagesMin));
  return {.page_bytes = page, .pages = static_cast<std::uint32_t>(arena / page)};
}

absl::StatusOr<CopyRates> MeasurePlainCopyRates(const PlainCopyOptions& options) {
  if (options.milliseconds == 0) {
    return absl::InvalidArgumentError("measuring copies needs a time");
  }
  std::vector<std::unique_ptr<numa::Arena>> arenas;
  for (int i = 0; i < 4; ++i) {
    SLUICE_ASSIGN_OR_RETURN(auto arena,
                            numa::Arena::Create({.name = "measure",
                                                 .page_bytes = options.page_bytes,
                                                 .frames = options.pages,
                                                 .touch_cpus = options.cpus}));
    arenas.push_back(std::move(arena));
  }
  PlainLoop in(*arenas[0], *arenas[1]);
  PlainLoop out(*arenas[2], *arenas[3]);
  CopyRates rates;
  SLUICE_ASSIGN_OR_RETURN(rates.in, RunLoops(options, {&in}));
  SLUICE_ASSIGN_OR_RETURN(rates.out, RunLoops(options, {&out}));
  SLUICE_ASSIGN_OR_RETURN(rates.both, RunLoops(options, {&in, &out}));
  return rates;
}

absl::StatusOr<CopyRates> MeasureCopyRates(Device& device, const DeviceCopyOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(device, options));
  CopyRates rates;
  SLUICE_ASSIGN_OR_RETURN(rates.in, RunOnDevice(device, options, {.in = true}));
  SLUICE_ASSIGN_OR_RETURN(rates.out, RunOnDevice(device, options, {.out = true}));
  SLUICE_ASSIGN_OR_RETURN(rates.both, RunOnDevice(device, options, {.in = true, .out = true}));
  return rates;
}

}  // namespace sluice::device
