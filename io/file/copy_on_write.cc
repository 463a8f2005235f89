#include "io/file/copy_on_write.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::io {
namespace {

struct CopyingFileSystem {
  std::uint64_t magic;
  std::string_view name;
};

constexpr std::uint64_t kBcachefsMagic = 0xca451a4e;
constexpr std::uint64_t kZfsMagic = 0x2fc12fc1;
/// f2fs writes to new places as well, but keeps enough space for that aside.
constexpr std::array kCopying = {CopyingFileSystem{BTRFS_SUPER_MAGIC, "btrfs"},
                                 CopyingFileSystem{kBcachefsMagic, "bcachefs"},
                                 CopyingFileSystem{kZfsMagic, "zfs"}};

/// Empty where the file system is not known to copy.
std::string_view CopyingName(std::uint64_t magic) {
  for (const CopyingFileSystem& known : kCopying) {
    if (known.magic == magic) return known.name;
  }
  return {};
}

std::string WhyNotNocow(const NocowAnswers& answers) {
  if (answers.get_error != 0) {
    return fmt::format("FS_IOC_GETFLAGS: {}", base::ErrnoName(answers.get_error));
  }
  if (answers.set_error != 0) {
    return fmt::format("FS_NOCOW_FL is refused: {}", base::ErrnoName(answers.set_error));
  }
  return "FS_NOCOW_FL is accepted and not kept";
}

// FUSE before Linux 5.13 copies a whole long, as the number of the call says; others an int.
int GetFlags(int fd, long* flags) { return ioctl(fd, FS_IOC_GETFLAGS, flags) == 0 ? 0 : errno; }
int SetFlags(int fd, long flags) { return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0 ? 0 : errno; }

/// A file that is compressed, as its directory is, first has to stop being so.
int SetNocow(int fd, long flags) {
  const long plain = flags & ~long{FS_COMPR_FL};
  const int error = plain == flags ? 0 : SetFlags(fd, plain);
  return error != 0 ? error : SetFlags(fd, plain | FS_NOCOW_FL);
}

}  // namespace

NocowAnswers ReadNocow(int fd) {
  NocowAnswers answers;
  struct statfs info {};
  if (fstatfs(fd, &info) == 0) answers.file_system = static_cast<std::uint64_t>(info.f_type);
  long flags = 0;
  answers.get_error = GetFlags(fd, &flags);
  answers.nocow = answers.get_error == 0 && (flags & FS_NOCOW_FL) != 0;
  return answers;
}

NocowAnswers AskForNocow(int fd) {
  NocowAnswers answers = ReadNocow(fd);
  long flags = 0;
  answers.get_error = GetFlags(fd, &flags);
  if (answers.get_error != 0) return answers;
  if ((flags & FS_NOCOW_FL) == 0) {  // no call if the directory or the mount gave the flag
    answers.set_error = SetNocow(fd, flags);
    answers.get_error = GetFlags(fd, &flags);
  }
  answers.nocow = answers.get_error == 0 && (flags & FS_NOCOW_FL) != 0;
  return answers;
}

std::string WhyCopied(const NocowAnswers& answers, std::string_view not_asked) {
  if (answers.nocow) return {};
  const std::string_view name = CopyingName(answers.file_system);
  if (name.empty()) return {};
  return fmt::format("{} copies pages on write, {}",
                     name,
                     not_asked.empty() ? WhyNotNocow(answers) : std::string(not_asked));
}

}  // namespace sluice::io
