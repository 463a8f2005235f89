#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice::io {

/// State of the writing of spill files in full, where the file system cannot reserve space.
struct FillProgress {
  std::string directory;
  std::string reason;           ///< the refusal of the reservation
  std::uint64_t filled = 0;     ///< bytes on the disk
  std::uint64_t bytes_all = 0;  ///< bytes of all files of the directory
};

/// Called at the start, and as bytes reach the disk.
using OnFill = std::function<void(const FillProgress&)>;

/// Writes all `bytes` of an open file without bytes, so that the file system gives each block its
/// place. The bytes are noise: a file system that compresses or skips zeros would reserve nothing.
/// A sync of each piece before the next keeps the page cache small, and brings up errors of delayed
/// allocation (NFS, FUSE). `on_filled` gets the bytes on the disk after each piece, and says
/// whether to go on. Returns 0 or an errno: ECANCELED where it says no.
int FillFile(int fd,
             std::uint64_t bytes,
             const std::function<bool(std::uint64_t filled)>& on_filled);

}  // namespace sluice::io
