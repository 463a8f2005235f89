#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <vector>

#include "io/engine/io_engine.h"
#include "io/engine/ring_buffers.h"

namespace sluice::io {

/// Files and memory that a ring knows by number, for the entries that name them. Threads: that of
/// the ring.
struct RingNumbers {
  /// Files in the order of their numbers; empty: none.
  std::vector<int> files;
  /// Registered memory; null: none.
  const RingBuffers* buffers = nullptr;
};

/// Makes an entry of adjacent commands of one direction: `first`, and the memory of all of them,
/// which stays where it is until the entry completes.
void PrepareEntry(const RingNumbers& numbers,
                  const IoCommand& first,
                  const std::vector<iovec>& pieces,
                  io_uring_sqe* sqe);

}  // namespace sluice::io
