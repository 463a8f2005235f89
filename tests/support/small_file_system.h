#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::testing {

/// Mounts a new ext4 of `bytes` at `path`, an empty directory, in a mount namespace of the calling
/// process. The image is a loop device over a file without a name. All of it goes with the process
/// and its children, however they end. Returns why not (the right to mount, loop devices or
/// mkfs.ext4 is missing), or nothing. REQUIRES: a process of its own (RunInChild), without other
/// threads.
std::string MountSmallExt4(const std::string& path, std::uint64_t bytes);

/// Mounts a new ext2 or ext3 likewise. These have no extents and so no fallocate(2).
std::string MountSmallExt2(const std::string& path, std::uint64_t bytes);
std::string MountSmallExt3(const std::string& path, std::uint64_t bytes);

/// Mounts a new btrfs likewise, of at least 128 MiB. Needs mkfs.btrfs and a kernel with btrfs.
std::string MountSmallBtrfs(const std::string& path, std::uint64_t bytes);

/// Mounts the directory `source` at `path` through bindfs, a FUSE file system without O_TMPFILE and
/// fallocate(2), in a mount namespace of the calling process. Returns why not, or nothing.
/// REQUIRES: a process of its own (RunInChild), without other threads.
std::string MountBindfs(const std::string& source, const std::string& path);

/// Free bytes at `path`, without those that are kept for root.
std::uint64_t FreeBytes(const std::string& path);

/// Whether at least `bytes` are free at `path`, now or before `patience` is over. The kernel takes
/// its time to free a killed process's files.
bool BecomesFree(const std::string& path, std::uint64_t bytes, std::chrono::seconds patience);

/// Writes a new file at `path` until its file system has no byte left. Returns false if that never
/// comes.
bool FillUp(const std::string& path);

}  // namespace sluice::testing
