#include "numa/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/thread.h"
#include "base/worker_pool.h"

namespace sluice::numa {
namespace {

// Newer than the libc headers of some systems that the kernel may still serve.
constexpr int kMadvPopulateWrite = 23;
constexpr int kMadvCollapse = 25;
constexpr int kAttemptsMax = 8;

/// madvise that repeats what the kernel calls transient.
int Advise(std::span<std::byte> memory, int advice) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (madvise(memory.data(), memory.size(), advice) == 0) return 0;
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return errno;
}

/// Writes into each small page without changing it: what MADV_POPULATE_WRITE does, for kernels that
/// lack it.
void TouchByWriting(std::span<std::byte> memory) {
  for (std::uint64_t offset = 0; offset < memory.size(); offset += kSmallPageBytes) {
    auto& first = reinterpret_cast<unsigned char&>(memory[offset]);
    std::atomic_ref<unsigned char>(first).fetch_or(0, std::memory_order_relaxed);
  }
}

/// Populates with the small pages that are missing. Unlike a write, a lack of memory is an error
/// here and not a signal.
int PopulateSmall(std::span<std::byte> memory) {
  const int error = Advise(memory, kMadvPopulateWrite);
  const bool known = error != EINVAL || madvise(nullptr, 0, kMadvPopulateWrite) == 0;
  if (known) return error;
  TouchByWriting(memory);
  return 0;
}

/// The shared work of the populating threads: one unit is 2 MiB.
class Populator {
 public:
  Populator(std::span<std::byte> memory, bool huge_pages)
      : memory_(memory), huge_pages_(huge_pages) {}

  void Run() {
    const std::uint64_t units = (memory_.size() + kHugePageBytes - 1) / kHugePageBytes;
    for (std::uint64_t unit = next_++; unit < units; unit = next_++) {
      const std::uint64_t offset = unit * kHugePageBytes;
      PopulateUnit(memory_.subspan(offset, std::min(kHugePageBytes, memory_.size() - offset)));
    }
  }

  int first_error() const { return first_error_; }
  int collapse_error() const { return collapse_error_; }
  std::uint64_t refused() const { return refused_; }

 private:
  void PopulateUnit(std::span<std::byte> unit) {
    if (huge_pages_ && unit.size() == kHugePageBytes) {
      Note(first_error_, PopulateSmall(unit.first(kSmallPageBytes)));
      const int error = Advise(unit, kMadvCollapse);
      if (error == 0) return;
      Note(collapse_error_, error);
      ++refused_;
    }
    Note(first_error_, PopulateSmall(unit));
  }

  static void Note(std::atomic<int>& first, int error) {
    int none = 0;
    if (error != 0) first.compare_exchange_strong(none, error);
  }

  const std::span<std::byte> memory_;
  const bool huge_pages_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<int> first_error_ = 0;
  std::atomic<int> collapse_error_ = 0;
};

absl::Status RunOnThreads(Populator& populator, const PopulateOptions& options) {
  std::vector<std::thread> threads;
  absl::Status started;
  for (int i = 0; started.ok() && i < std::max(1, options.threads); ++i) {
    absl::StatusOr<std::thread> thread = base::StartThread([&] {
      base::SetUpThread("sluice-touch", options.cpus);
      populator.Run();
    });
    started = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  for (std::thread& thread : threads) thread.join();
  return started;
}

bool StartsWith(const std::string& line, const char* key) { return line.rfind(key, 0) == 0; }

}  // namespace

absl::StatusOr<std::string> PopulateMemory(std::span<std::byte> memory,
                                           const PopulateOptions& options) {
  Populator populator(memory, options.huge_pages);
  SLUICE_RETURN_IF_ERROR(RunOnThreads(populator, options));
  if (populator.first_error() != 0) {
    return base::StatusFromErrno(populator.first_error(), "first touch of an arena");
  }
  if (populator.refused() == 0) return std::string();
  return absl::StrFormat("MADV_COLLAPSE refused for %d of %d units of 2 MiB: %s",
                         populator.refused(),
                         memory.size() / kHugePageBytes,
                         base::ToAbsl(base::ErrnoName(populator.collapse_error())));
}

absl::StatusOr<std::uint64_t> HugeMappedBytes(std::span<const std::byte> memory) {
  std::ifstream smaps("/proc/self/smaps");
  if (!smaps) return absl::NotFoundError("cannot read /proc/self/smaps");
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uint64_t last = first + memory.size();
  bool inside = false;
  std::uint64_t kib = 0;
  std::string line;
  while (std::getline(smaps, line)) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t value = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2) {
      inside = begin >= first && end <= last;
    } else if (inside &&
               (StartsWith(line, "AnonHugePages:") || StartsWith(line, "ShmemPmdMapped:") ||
                StartsWith(line, "FilePmdMapped:"))) {
      if (std::sscanf(line.c_str(), "%*s %" SCNu64, &value) == 1) kib += value;
    }
  }
  return kib * 1024;
}

absl::Status KeepPrivateToProcess(std::span<std::byte> memory) {
  for (const int advice : {MADV_DONTDUMP, MADV_DONTFORK}) {
    const int error = Advise(memory, advice);
    if (error != 0) return base::StatusFromErrno(error, "madvise DONTDUMP, DONTFORK");
  }
  return absl::OkStatus();
}

}  // namespace sluice::numa
