#include "io/direct_io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/status.h"
#include "fmt/format.h"
#include "io/io_engine.h"

namespace sluice::io {
namespace {

std::string DescribeErrno(std::string_view call, int error_number = errno) {
  return fmt::format("{}: {}", call, base::ErrnoName(error_number));
}

// These accept the flag and ignore it: their pages are the page cache itself.
bool IsMemoryFileSystem(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return false;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

int AskKernel(int fd, struct statx* info) {
  return statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, info) == 0 ? 0 : errno;
}

std::string CheckAlignment(int fd, const AskAlignment& ask) {
  struct statx info {};
  const int error = ask ? ask(fd, &info) : AskKernel(fd, &info);
  if (error != 0) return DescribeErrno("statx", error);
  // Before Linux 6.1, and on file systems that do not tell, the probe read has to do.
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

std::string ProbeRead(int fd) {
  alignas(kIoAlignment) std::array<std::byte, kIoAlignment> block{};
  const ssize_t moved = pread(fd, block.data(), block.size(), 0);
  if (moved < 0) return DescribeErrno("probe read");
  if (moved != static_cast<ssize_t>(block.size())) return "the probe read came back short";
  return {};
}

std::string SetDirect(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return DescribeErrno("fcntl");
  const int wanted = on ? flags | O_DIRECT : flags & ~O_DIRECT;
  return fcntl(fd, F_SETFL, wanted) == 0 ? std::string() : DescribeErrno("fcntl(O_DIRECT)");
}

}  // namespace

// An advice: that it is refused (no such file system is known) costs memory, not bytes.
void TurnOffReadAhead(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

std::string TurnOnDirect(int fd, const AskAlignment& ask) {
  if (IsMemoryFileSystem(fd)) return "the file system is memory (tmpfs)";
  std::string reason = CheckAlignment(fd, ask);
  if (!reason.empty()) return reason;
  reason = SetDirect(fd, true);
  if (!reason.empty()) return reason;
  reason = ProbeRead(fd);
  if (!reason.empty()) SetDirect(fd, false);
  return reason;
}

}  // namespace sluice::io
