#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/spill_directory.h"
#include "io/spill_file.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

struct FileSystemName {
  long magic;
  const char* name;
};

constexpr long kXfsMagic = 0x58465342;
constexpr long kZfsMagic = 0x2fc12fc1;
constexpr long kBcachefsMagic = 0xca451a4e;
constexpr std::array kFileSystems = {FileSystemName{EXT4_SUPER_MAGIC, "ext4"},
                                     FileSystemName{kXfsMagic, "xfs"},
                                     FileSystemName{BTRFS_SUPER_MAGIC, "btrfs"},
                                     FileSystemName{kBcachefsMagic, "bcachefs"},
                                     FileSystemName{F2FS_SUPER_MAGIC, "f2fs"},
                                     FileSystemName{kZfsMagic, "zfs"},
                                     FileSystemName{TMPFS_MAGIC, "tmpfs"},
                                     FileSystemName{RAMFS_MAGIC, "ramfs"},
                                     FileSystemName{OVERLAYFS_SUPER_MAGIC, "overlayfs"},
                                     FileSystemName{NFS_SUPER_MAGIC, "nfs"},
                                     FileSystemName{FUSE_SUPER_MAGIC, "fuse"}};

constexpr std::uint64_t kProbeBytes = 1 << 20;
constexpr std::uint64_t kLittleSpace = std::uint64_t{1} << 30;

std::string FileSystemOf(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return "unknown";
  for (const FileSystemName& known : kFileSystems) {
    if (known.magic == static_cast<long>(info.f_type)) return known.name;
  }
  return fmt::format("type {:#x}", static_cast<unsigned long>(info.f_type));
}

void ReadSpace(int fd, SpillFacts& facts) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) return;
  facts.free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  facts.total_bytes = std::uint64_t{info.f_blocks} * info.f_frsize;
}

void ReadAlignment(int fd, SpillFacts& facts) {
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return;
  facts.memory_align = info.stx_dio_mem_align;
  facts.offset_align = info.stx_dio_offset_align;
}

/// Makes a small spill file as a Runtime makes its own.
absl::Status ProbeFile(const io::SpillDirectory& directory, SpillFacts& facts) {
  const auto file = io::SpillFile::Create(directory, {.bytes = kProbeBytes});
  if (!file.ok()) {
    const std::string message = fmt::format(
        "{}; no spill file can be made there: name a directory on a disk, with space, in "
        "tiers.nvme.directory",
        base::ToStd(file.status().message()));
    return absl::Status(file.status().code(), base::ToAbsl(message));
  }
  ReadAlignment((*file)->file().fd, facts);
  facts.direct_reason = (*file)->direct_reason();
  facts.nocow_reason = (*file)->nocow_reason();
  return absl::OkStatus();
}

}  // namespace

SpillFacts ReadSpill(const std::string& directory) {
  SpillFacts facts;
  facts.directory = directory;
  const auto opened = io::OpenSpillDirectory(directory);
  if (!opened.ok()) {
    facts.status = opened.status();
    return facts;
  }
  facts.directory = opened->path;
  facts.file_system = FileSystemOf(opened->fd.get());
  ReadSpace(opened->fd.get(), facts);
  facts.status = ProbeFile(*opened, facts);
  return facts;
}

Section DescribeSpill(const SpillFacts& facts) {
  Section section("spill");
  if (!facts.directory.empty()) section.Add("directory", facts.directory);
  if (!facts.file_system.empty()) {
    section.Add("file_system", facts.file_system);
    section.Add(
        "free_bytes",
        facts.free_bytes,
        fmt::format(
            "{} of {}", ToString(Bytes(facts.free_bytes)), ToString(Bytes(facts.total_bytes))));
  }
  section.Add("usable", facts.status.ok(), facts.status.ok() ? "yes" : "no");
  if (!facts.status.ok()) {
    section.Warn(std::string(facts.status.message()));
    return section;
  }
  const bool direct = facts.direct_reason.empty();
  section.Add("direct", direct, direct ? "yes" : "no: " + facts.direct_reason);
  if (facts.memory_align && facts.offset_align) {
    section.Add("direct_alignment",
                {{"memory_bytes", *facts.memory_align}, {"offset_bytes", *facts.offset_align}},
                fmt::format("memory {}, offsets {}", *facts.memory_align, *facts.offset_align));
  }
  const bool nocow = facts.nocow_reason.empty();
  section.Add("nocow", nocow, nocow ? "yes" : "no: " + facts.nocow_reason);
  if (!direct) section.Warn("pages go through the page cache, which takes memory of its own");
  if (!nocow) {
    section.Warn(
        "a page that is written again needs new space, which may run out: make the directory "
        "anew with chattr +C, or name one on ext4 or xfs");
  }
  if (facts.free_bytes < kLittleSpace) section.Warn("less than 1 GiB of space is free");
  return section;
}

}  // namespace sluice::tools
