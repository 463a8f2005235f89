#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

namespace sluice::io {

/// A function that tests put in place of statx(2) with STATX_DIOALIGN; returns 0 or an errno.
/// Empty: statx.
using AskAlignment = std::function<int(int fd, struct statx* info)>;
/// A function that tests put in place of mincore(2) for one mapped page. Sets bit 0 of `resident`
/// if the page cache holds the page, and returns 0 or an errno. Empty: mincore.
using AskCache = std::function<int(void* page, unsigned char* resident)>;

/// Makes reads of a buffered file bring no more into the page cache than they are asked for.
void TurnOffReadAhead(int fd);

/// Turns O_DIRECT on for an open, preallocated file of at least kIoAlignment bytes, of any content.
/// Writes and reads its first block, to see two things:
/// - offsets, lengths and memory aligned to kIoAlignment work
/// - no byte passes through the page cache (btrfs accepts the flag and goes through the cache if it
///   keeps checksums or several copies).
/// Returns the reason why not, and the file is buffered then: one mode per file, never both. Empty:
/// the file is O_DIRECT.
std::string TurnOnDirect(int fd, const AskAlignment& ask, const AskCache& ask_cache = {});

/// Does the same for reads of a file that is not written. Reads its last block alone, after advice
/// to the page cache to forget it. An empty file stays buffered.
std::string TurnOnDirectReads(int fd, const AskAlignment& ask = {}, const AskCache& ask_cache = {});

}  // namespace sluice::io
