#include "numa/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "numa/binding.h"
#include "numa/huge_pages.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kChunkBytesMax = 256ull << 20;
constexpr std::uint64_t kChunksMin = 8;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::uint64_t ChunkBytes(std::uint64_t total, std::uint64_t page_bytes) {
  const std::uint64_t unit = std::max(page_bytes, kHugePageBytes);
  return std::min(kChunkBytesMax, RoundUp((total + kChunksMin - 1) / kChunksMin, unit));
}

absl::Status CheckOptions(const ArenaOptions& options, int node_count) {
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < kSmallPageBytes ||
      options.page_bytes > kChunkBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena %s: page_bytes %d is not a power of two from 4 KiB to 256 MiB",
                        options.name,
                        options.page_bytes));
  }
  if (options.frames == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena %s: needs at least one frame", options.name));
  }
  // Numbers may have gaps, so a count that the caller gives says nothing about the highest.
  const int node_end = options.node_count > 0 ? kNodeIndexEnd : node_count;
  if (options.node < -1 || options.node >= node_end) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "arena %s: node %d of %d does not exist", options.name, options.node, node_count));
  }
  return absl::OkStatus();
}

// The check comes before ftruncate, which would raise SIGXFSZ in the caller's thread.
absl::Status CheckFileSizeLimit(const std::string& name, std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "arena %s: its %d bytes are a file without a name, and the limit of file sizes is %d bytes "
      "(see ulimit -f)",
      name,
      bytes,
      limit.rlim_cur));
}

/// A memfd of `bytes`, still without memory. -1 and errno on failure.
int OpenMemory(const std::string& name, std::uint64_t bytes) {
  const int fd = memfd_create(("sluice-" + name).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

struct Arena::State {
  ~State() {
    if (fd >= 0) close(fd);
  }

  std::uint64_t total_bytes() const { return options.frames * options.page_bytes; }
  std::span<std::byte> Bytes(std::uint32_t first_frame, std::uint32_t last_frame) const {
    return {range->base() + first_frame * options.page_bytes,
            (last_frame - first_frame) * options.page_bytes};
  }
  /// Whole chunks, or all that there is.
  std::uint32_t RoundUpToChunk(std::uint32_t count) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(RoundUp(count, frames_per_chunk), options.frames));
  }

  absl::Status MapFrames(std::span<std::byte> memory, int extra_flags) const;
  absl::Status TakeFrames(std::uint32_t first, std::uint32_t last);
  absl::Status GiveBackFrames(std::uint32_t first, std::uint32_t last);
  void MeasureHugeShare();

  ArenaOptions options;
  int node_count = 1;
  std::uint32_t frames_per_chunk = 0;
  int fd = -1;
  std::unique_ptr<AddressRange> range;
  ArenaInfo info;
  std::atomic<std::uint32_t> frame_count = 0;
  std::atomic<double> huge_page_share = 0;
};

/// Maps the memory at its place in the arena's range.
absl::Status Arena::State::MapFrames(std::span<std::byte> memory, int extra_flags) const {
  void* result = mmap(memory.data(),
                      memory.size(),
                      PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | extra_flags,
                      fd,
                      memory.data() - range->base());
  if (result == MAP_FAILED) return base::StatusFromErrno(errno, "mmap of arena " + options.name);
  return KeepPrivateToProcess(memory);
}

/// Gives the frames memory: map, bind, first touch, collapse. The first use of a place decides on
/// which node it lies, so nothing may touch it before it is bound.
absl::Status Arena::State::TakeFrames(std::uint32_t first, std::uint32_t last) {
  const std::span<std::byte> memory = Bytes(first, last);
  SLUICE_RETURN_IF_ERROR(MapFrames(memory, 0));
  if (options.node >= 0) {
    BindingResult binding = BindToNode(memory, options.node, node_count);
    if (info.binding_reason.empty()) info.binding_reason = std::move(binding.reason);
    info.bound = info.binding_reason.empty();
  }
  SLUICE_ASSIGN_OR_RETURN(std::string reason,
                          PopulateMemory(memory,
                                         {.huge_pages = options.huge_pages,
                                          .threads = options.touch_threads,
                                          .cpus = options.touch_cpus}));
  if (info.huge_page_reason.empty()) info.huge_page_reason = std::move(reason);
  frame_count = last;
  return absl::OkStatus();
}

/// Unmaps first: a hole punched under a mapping would be filled again by the next stray access.
/// When the memory does not go back, frames that the arena had are mapped again and stay its own.
absl::Status Arena::State::GiveBackFrames(std::uint32_t first, std::uint32_t last) {
  const std::span<std::byte> memory = Bytes(first, last);
  const std::uint64_t offset = first * options.page_bytes;
  const std::uint32_t before = frame_count;
  SLUICE_RETURN_IF_ERROR(range->Unmap(offset, memory.size()));
  frame_count = first;
  if (fallocate(fd,
                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(offset),
                static_cast<off_t>(memory.size())) == 0) {
    return absl::OkStatus();
  }
  absl::Status refused =
      base::StatusFromErrno(errno, "fallocate PUNCH_HOLE of arena " + options.name);
  if (before == last && MapFrames(memory, 0).ok()) frame_count = before;
  return refused;
}

void Arena::State::MeasureHugeShare() {
  const std::uint64_t bytes = frame_count * options.page_bytes;
  const absl::StatusOr<std::uint64_t> huge = HugeMappedBytes({range->base(), bytes});
  huge_page_share =
      huge.ok() && bytes > 0 ? static_cast<double>(*huge) / static_cast<double>(bytes) : 0.0;
  if (!options.huge_pages || !info.huge_page_reason.empty()) return;
  const std::uint64_t possible = bytes / kHugePageBytes * kHugePageBytes;
  if (!huge.ok()) {
    info.huge_page_reason = std::string(huge.status().message());
  } else if (*huge < possible) {
    info.huge_page_reason =
        absl::StrFormat("only %d of %d bytes are mapped by 2 MiB pages", *huge, possible);
  }
}

Arena::Arena(std::unique_ptr<State> state) : state_(std::move(state)) {}
Arena::~Arena() = default;

absl::StatusOr<std::unique_ptr<Arena>> Arena::Create(const ArenaOptions& options) {
  const int node_count = options.node_count > 0 ? options.node_count : CountNodes();
  SLUICE_RETURN_IF_ERROR(CheckOptions(options, node_count));
  auto state = std::make_unique<State>();
  state->options = options;
  state->node_count = node_count;
  const std::uint64_t bytes = state->total_bytes();
  state->frames_per_chunk =
      static_cast<std::uint32_t>(ChunkBytes(bytes, options.page_bytes) / options.page_bytes);
  SLUICE_ASSIGN_OR_RETURN(state->range, AddressRange::Reserve(bytes));
  SLUICE_RETURN_IF_ERROR(CheckFileSizeLimit(options.name, bytes));
  state->fd = OpenMemory(options.name, bytes);
  if (state->fd < 0) return base::StatusFromErrno(errno, "memfd_create of arena " + options.name);
  SLUICE_RETURN_IF_ERROR(state->TakeFrames(0, options.frames));
  state->MeasureHugeShare();
  return absl::WrapUnique(new Arena(std::move(state)));
}

std::uint32_t Arena::frame_count() const { return state_->frame_count; }
std::uint64_t Arena::page_bytes() const { return state_->options.page_bytes; }
std::uint32_t Arena::frames_per_chunk() const { return state_->frames_per_chunk; }
std::uint64_t Arena::allocated_bytes() const {
  struct stat status = {};
  SLUICE_CHECK(fstat(state_->fd, &status) == 0, "the arena's descriptor is open while it lives");
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

double Arena::huge_page_share() const { return state_->huge_page_share; }
const ArenaInfo& Arena::info() const { return state_->info; }

std::span<std::byte> Arena::Frame(std::uint32_t frame) const {
  SLUICE_CHECK(frame < state_->frame_count, "a frame is used only while the arena has it");
  return state_->Bytes(frame, frame + 1);
}

absl::Status Arena::MapAt(std::uint32_t frame, std::byte* address, MapAccess access) const {
  SLUICE_CHECK(frame < state_->frame_count, "a frame is mapped only while the arena has it");
  const std::uint64_t bytes = state_->options.page_bytes;
  void* result = mmap(address,
                      bytes,
                      access == MapAccess::kRead ? PROT_READ : PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                      state_->fd,
                      static_cast<off_t>(frame * bytes));
  if (result == MAP_FAILED) {
    return base::StatusFromErrno(
        errno, "mmap of a frame of arena " + state_->options.name + " (see vm.max_map_count)");
  }
  return KeepPrivateToProcess({address, bytes});
}

absl::StatusOr<std::uint32_t> Arena::Shrink(std::uint32_t frames) {
  const std::uint32_t keep = state_->RoundUpToChunk(frames);
  if (keep < state_->frame_count) {
    SLUICE_RETURN_IF_ERROR(state_->GiveBackFrames(keep, state_->frame_count));
    state_->MeasureHugeShare();
  }
  return state_->frame_count.load();
}

absl::StatusOr<std::uint32_t> Arena::Grow(std::uint32_t frames) {
  if (frames > state_->options.frames) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arena %s cannot grow to %d frames: it was created with %d",
                        state_->options.name,
                        frames,
                        state_->options.frames));
  }
  const std::uint32_t target = state_->RoundUpToChunk(frames);
  if (state_->frame_count < target) state_->info = {};
  while (state_->frame_count < target) {
    const std::uint32_t first = state_->frame_count;
    const std::uint32_t last = std::min(target, first + state_->frames_per_chunk);
    const absl::Status taken = state_->TakeFrames(first, last);
    if (!taken.ok()) {
      // The part of the chunk that got memory goes back. The arena stays as it was before the
      // chunk.
      SLUICE_RETURN_IF_ERROR(state_->GiveBackFrames(first, last));
      return taken;
    }
  }
  state_->MeasureHugeShare();
  return state_->frame_count.load();
}

}  // namespace sluice::numa
