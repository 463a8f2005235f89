#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sluice::io {

/// The kernel's answers about copying on write in one file. An errno of 0 means success.
struct NocowAnswers {
  std::uint64_t file_system = 0;  ///< f_type of fstatfs(2); 0: not known
  int get_error = 0;              ///< errno of FS_IOC_GETFLAGS
  int set_error = 0;              ///< errno of FS_IOC_SETFLAGS with FS_NOCOW_FL
  bool nocow = false;             ///< FS_NOCOW_FL, read back after it was set
};

/// A function that tests put in place of AskForNocow.
using AskNocow = std::function<NocowAnswers(int fd)>;

/// Sets FS_NOCOW_FL on an open file without bytes, and reads it back: btrfs ignores the flag on a
/// file with bytes, f2fs on any. Compression is turned off, as the two exclude each other.
NocowAnswers AskForNocow(int fd);

/// Reads the answers without setting the flag.
NocowAnswers ReadNocow(int fd);

/// The reason why the file's pages are copied on write; empty where they are overwritten in place.
/// fallocate(2) on a copying file system reserves space for the first write of a page only.
/// `not_asked`: why the flag was not set, where it was not.
std::string WhyCopied(const NocowAnswers& answers, std::string_view not_asked = {});

}  // namespace sluice::io
