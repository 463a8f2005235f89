#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "io/engine/io_engine.h"

namespace sluice::io {

/// A request of the kernel: a request of the queue, or several that are adjacent in a file.
/// Threads: that of the ring.
class UringBatch {
 public:
  using TryAloneFn = absl::FunctionRef<void(IoRequest*)>;

  void Take(IoRequest* request);
  /// Whether one more request of the last one's size makes no more than `bytes_max`.
  bool MayTakeMore(std::uint64_t bytes_max) const;
  const IoRequest& last() const { return *requests_.back(); }
  const IoCommand& first_command() const { return requests_.front()->command; }
  std::uint64_t bytes() const { return bytes_; }
  /// The memory of all, in order; stays where it is until Deliver.
  const std::vector<iovec>& pieces() const { return pieces_; }

  /// Completes the requests with what the kernel said of all together, and is empty then. A count
  /// is that of the requests from the first on. An error, or the end of a count, says nothing about
  /// those that follow. `try_alone` gets each of these, so that nobody gets what concerns another.
  void Deliver(std::int64_t result, TryAloneFn try_alone);

 private:
  std::vector<IoRequest*> requests_;
  std::vector<iovec> pieces_;
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::io
