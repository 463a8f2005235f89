#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <vector>

#include "io/engine/io_engine.h"
#include "io/engine/ring_buffers.h"

namespace sluice::io {

/// What a ring knows by number, for the entries that name it. Threads: that of the ring.
struct RingNumbers {
  /// In the order of their numbers; empty: none.
  std::vector<int> files;
  /// Null: none.
  const RingBuffers* buffers = nullptr;
};

/// Makes an entry of adjacent commands of one direction: `first`, and the memory of all of them,
/// which stays where it is until the entry completes.
void PrepareEntry(const RingNumbers& numbers,
                  const IoCommand& first,
                  const std::vector<iovec>& pieces,
                  io_uring_sqe* sqe);

}  // namespace sluice::io
