#include "io/file/file_fill.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::io {
namespace {

constexpr std::uint64_t kNoiseBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFillBlock = 4096;

/// splitmix64 from a fixed seed: nothing of this process is in the bytes.
std::vector<std::uint64_t> MakeNoise() {
  std::vector<std::uint64_t> words(kNoiseBytes / sizeof(std::uint64_t));
  std::uint64_t state = 0;
  for (std::uint64_t& word : words) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    word = mixed ^ (mixed >> 31);
  }
  return words;
}

/// Writes a number into each block, so that no two are equal. Some file systems store equal blocks
/// once.
void NumberBlocks(std::uint64_t offset, std::vector<std::uint64_t>& words) {
  constexpr std::size_t kWords = kFillBlock / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words.size(); i += kWords) {
    words[i] = offset / kFillBlock + i / kWords;
  }
}

int WriteAt(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return 0;
}

int SyncAndForget(int fd, std::uint64_t offset, std::uint64_t bytes) {
  int result = fdatasync(fd);
  while (result != 0 && errno == EINTR) result = fdatasync(fd);
  if (result != 0) return errno;
  // An advice: a refusal costs memory, not bytes.
  (void)posix_fadvise(
      fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  return 0;
}

}  // namespace

int FillFile(int fd,
             std::uint64_t bytes,
             const std::function<bool(std::uint64_t filled)>& on_filled) {
  std::vector<std::uint64_t> noise = MakeNoise();
  std::uint64_t synced = 0;
  for (std::uint64_t offset = 0; offset < bytes;) {
    NumberBlocks(offset, noise);
    const std::uint64_t size = std::min(kNoiseBytes, bytes - offset);
    const int failed = WriteAt(fd, std::as_bytes(std::span(noise)).first(size), offset);
    if (failed != 0) return failed;
    offset += size;
    if (offset < bytes && offset - synced < kPieceBytes) continue;
    if (const int error = SyncAndForget(fd, synced, offset - synced); error != 0) return error;
    synced = offset;
    if (!on_filled(synced)) return ECANCELED;
  }
  return 0;
}

}  // namespace sluice::io
