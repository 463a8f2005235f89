#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::testing {

/// Mounts a new ext4 of `bytes` at `path`, an empty directory: a loop device over a file without a
/// name, in a mount namespace of the calling process. All of it goes with the process and those it
/// forks, however they end. Returns why not (the right to mount, loop devices or mkfs.ext4 is
/// missing), or nothing. REQUIRES: a process of its own (RunInChild), without other threads.
std::string MountSmallExt4(const std::string& path, std::uint64_t bytes);

/// The same with ext2 and ext3, which have no extents and so no fallocate(2).
std::string MountSmallExt2(const std::string& path, std::uint64_t bytes);
std::string MountSmallExt3(const std::string& path, std::uint64_t bytes);

/// The same with btrfs, which takes at least 128 MiB. mkfs.btrfs and a kernel with btrfs are
/// needed.
std::string MountSmallBtrfs(const std::string& path, std::uint64_t bytes);

/// Mounts the directory `source` at `path` through bindfs, a FUSE file system without O_TMPFILE and
/// fallocate(2), in a mount namespace of the calling process. Returns why not, or nothing.
/// REQUIRES: a process of its own (RunInChild), without other threads.
std::string MountBindfs(const std::string& source, const std::string& path);

/// Bytes that are free at `path`, without those that are kept for root.
std::uint64_t FreeBytes(const std::string& path);

/// Whether at least `bytes` are free at `path`, now or before `patience` is used up: the kernel
/// lets go of a killed process's files in its time.
bool BecomesFree(const std::string& path, std::uint64_t bytes, std::chrono::seconds patience);

/// Writes a new file at `path` until its file system has no byte left; false when that never comes.
bool FillUp(const std::string& path);

}  // namespace sluice::testing
