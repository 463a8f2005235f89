#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

namespace sluice::io {

/// For tests: in place of statx(2) with STATX_DIOALIGN; returns 0 or an errno. Empty: that.
using AskAlignment = std::function<int(int fd, struct statx* info)>;

/// Makes reads of a buffered file bring no more into the page cache than they are asked for.
void TurnOffReadAhead(int fd);

/// Turns O_DIRECT on for an open, preallocated file of at least kIoAlignment bytes, and proves by a
/// read that it works with offsets, lengths and memory aligned to kIoAlignment. Empty when it
/// does; otherwise the reason, and the file is buffered: one mode per file, never both.
std::string TurnOnDirect(int fd, const AskAlignment& ask);

}  // namespace sluice::io
