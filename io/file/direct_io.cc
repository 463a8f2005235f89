#include "io/file/direct_io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "fmt/format.h"
#include "io/engine/io_engine.h"

namespace sluice::io {
namespace {

constexpr int kWritesToProbe = 3;
constexpr ssize_t kBlock = kIoAlignment;

std::string DescribeErrno(std::string_view call, int error_number = errno) {
  return fmt::format("{}: {}", call, base::ErrnoName(error_number));
}

// Memory file systems accept the flag and ignore it: their pages are the page cache itself.
bool IsMemoryFileSystem(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return false;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

int AskKernel(int fd, struct statx* info) {
  return statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, info) == 0 ? 0 : errno;
}

std::string CheckAlignment(const struct statx& info) {
  // The probe read decides before Linux 6.1, and on file systems that do not tell.
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return {};
  if (info.stx_dio_mem_align == 0 || info.stx_dio_offset_align == 0)
    return "the file system has none for this file";
  if (info.stx_dio_mem_align <= kIoAlignment && info.stx_dio_offset_align <= kIoAlignment)
    return {};
  return fmt::format(
      "the file system wants alignment {} of memory and {} of offsets, at most {} is supported",
      info.stx_dio_mem_align,
      info.stx_dio_offset_align,
      kIoAlignment);
}

/// A block of a file, mapped: shows whether the page cache holds it.
class MappedBlock {
 public:
  explicit MappedBlock(int fd, off_t at = 0)
      : at_(at), memory_(mmap(nullptr, kIoAlignment, PROT_READ, MAP_SHARED, fd, at)) {}
  ~MappedBlock() {
    if (memory_ != MAP_FAILED) munmap(memory_, kIoAlignment);
  }
  MappedBlock(const MappedBlock&) = delete;
  MappedBlock& operator=(const MappedBlock&) = delete;

  off_t at() const { return at_; }
  /// Brings the block into the page cache; without a signal where that fails.
  void Fill() const {
    if (memory_ != MAP_FAILED) madvise(memory_, kIoAlignment, MADV_POPULATE_READ);
  }
  /// Whether the block is in the page cache; false if the kernel does not tell.
  bool IsCached(const AskCache& ask) const {
    if (memory_ == MAP_FAILED) return false;
    unsigned char resident = 0;
    const int error = ask ? ask(memory_, &resident) : mincore(memory_, kIoAlignment, &resident);
    return error == 0 && (resident & 1U) != 0;
  }

 private:
  const off_t at_;
  void* const memory_;
};

std::string DescribeCount(std::string_view call, ssize_t moved, ssize_t wanted) {
  if (moved < 0) return DescribeErrno(call);
  if (moved != wanted) return fmt::format("the {} came back short", call);
  return {};
}

/// A block that was not in the cache is not there after a direct read either. The block has `bytes`
/// in the file.
std::string ProbeRead(int fd, const MappedBlock& block, ssize_t bytes, const AskCache& ask) {
  const bool cached_before = block.IsCached(ask);  // true after a preallocation that writes zeros
  alignas(kIoAlignment) std::array<std::byte, kIoAlignment> data{};
  std::string reason =
      DescribeCount("probe read", pread(fd, data.data(), data.size(), block.at()), bytes);
  if (!reason.empty()) return reason;
  if (cached_before || !block.IsCached(ask)) return {};
  return "the file system accepts O_DIRECT, but reads through the page cache";
}

/// A direct write takes the block out of the cache, where a buffered one leaves it, as it is
/// mapped. A direct write that finds the block busy becomes a buffered one, so several are tried.
std::string ProbeWrite(int fd, const MappedBlock& block, const AskCache& ask) {
  alignas(kIoAlignment) const std::array<std::byte, kIoAlignment> data{};
  for (int i = 0; i < kWritesToProbe; ++i) {
    block.Fill();
    std::string reason =
        DescribeCount("probe write", pwrite(fd, data.data(), data.size(), 0), kBlock);
    if (!reason.empty() || !block.IsCached(ask)) return reason;
  }
  return "the file system accepts O_DIRECT, but writes through the page cache";
}

std::string ProbeWholly(int fd, const struct statx& info, const AskCache& ask) {
  const MappedBlock block(fd);
  std::string reason = ProbeRead(fd, block, kBlock, ask);
  // A mapped page of a DAX file is the medium itself, and so always resident.
  const bool dax = (info.stx_attributes & STATX_ATTR_DAX) != 0;
  return reason.empty() && !dax ? ProbeWrite(fd, block, ask) : reason;
}

std::string SetDirect(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return DescribeErrno("fcntl");
  const int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;
  return fcntl(fd, F_SETFL, wanted) == 0 ? std::string() : DescribeErrno("fcntl(O_DIRECT)");
}

/// Sets O_DIRECT, and takes it back where `probe` has a reason against it.
std::string TurnOnIf(int fd,
                     const AskAlignment& ask,
                     absl::FunctionRef<std::string(const struct statx&)> probe) {
  if (IsMemoryFileSystem(fd)) return "the file system is memory (tmpfs)";
  struct statx info {};
  const int error = ask ? ask(fd, &info) : AskKernel(fd, &info);
  if (error != 0) return DescribeErrno("statx", error);
  std::string reason = CheckAlignment(info);
  if (!reason.empty()) return reason;
  reason = SetDirect(fd, true);
  if (!reason.empty()) return reason;
  reason = probe(info);
  if (!reason.empty()) SetDirect(fd, false);
  return reason;
}

}  // namespace

// An advice: that it is refused (no such file system is known) costs memory, not bytes.
void TurnOffReadAhead(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

std::string TurnOnDirect(int fd, const AskAlignment& ask, const AskCache& ask_cache) {
  return TurnOnIf(
      fd, ask, [&](const struct statx& info) { return ProbeWholly(fd, info, ask_cache); });
}

std::string TurnOnDirectReads(int fd, const AskAlignment& ask, const AskCache& ask_cache) {
  return TurnOnIf(fd, ask, [&](const struct statx& /*info*/) -> std::string {
    struct stat facts {};
    if (fstat(fd, &facts) != 0) return DescribeErrno("fstat");
    if (facts.st_size == 0) return "the file is empty";
    const off_t at = (facts.st_size - 1) / kBlock * kBlock;
    (void)posix_fadvise(fd, at, kBlock, POSIX_FADV_DONTNEED);
    return ProbeRead(fd, MappedBlock(fd, at), facts.st_size - at, ask_cache);
  });
}

}  // namespace sluice::io
