#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
#include <istream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kProbeBytes = 1 << 20;
constexpr std::uint64_t kLittleSpace = std::uint64_t{1} << 30;

/// The name of a mount's file system; empty where it is not listed. Fields: the mount's number,
/// others, "-", the name.
std::string TypeOfMount(std::istream& mounts, std::uint64_t mount) {
  const std::string begin = fmt::format("{} ", mount);
  constexpr std::string_view kSeparator = " - ";
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t at = line.find(kSeparator);
    if (!line.starts_with(begin) || at == std::string::npos) continue;
    const std::string rest = line.substr(at + kSeparator.size());
    return rest.substr(0, rest.find(' '));
  }
  return {};
}

/// Name of the file system by the mount, since ext2, ext3 and ext4 have one magic number, and all
/// of FUSE another.
std::string FileSystemOf(int fd) {
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) == 0 &&
      (info.stx_mask & STATX_MNT_ID) != 0) {
    std::ifstream mounts("/proc/self/mountinfo");
    std::string name = TypeOfMount(mounts, info.stx_mnt_id);
    if (!name.empty()) return name;
  }
  struct statfs type {};
  if (fstatfs(fd, &type) != 0) return "unknown";
  return fmt::format("type {:#x}", static_cast<unsigned long>(type.f_type));
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
absl::Status ProbeFile(const io::SpillDirectory& directory,
                       const IoOptions& options,
                       SpillFacts& facts) {
  const auto file = io::SpillFile::Create(directory,
                                          {.bytes = kProbeBytes,
                                           .direct = options.direct,
                                           .nocow = options.nocow,
                                           .reserved_space = options.reserved_space});
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
  facts.reserved_space_reason = (*file)->reserved_space_reason();
  return absl::OkStatus();
}

}  // namespace

SpillFacts ReadSpill(const std::string& directory, const RuntimeOptions& options) {
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
  facts.status = ProbeFile(*opened, options.io, facts);
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
  const bool reserved = facts.reserved_space_reason.empty();
  section.Add("reserved_space", reserved, reserved ? "yes" : "no: " + facts.reserved_space_reason);
  if (!direct) section.Warn("pages go through the page cache, which takes memory of its own");
  if (!nocow) {
    section.Warn(
        "a page that is written again needs new space, which may run out: make the directory "
        "anew with chattr +C, or name one on ext4 or xfs");
  }
  if (!reserved) {
    section.Warn(
        "each run begins with writing its spill files in full, as long as the disk needs for "
        "tiers.nvme.bytes: name a directory on ext4, xfs or btrfs");
  }
  if (facts.free_bytes < kLittleSpace) section.Warn("less than 1 GiB of space is free");
  return section;
}

}  // namespace sluice::tools
