#include "io/engine/uring_batch.h"

#include <algorithm>

namespace sluice::io {
namespace {

// The kernel takes 1024.
constexpr std::size_t kPiecesMax = 64;

}  // namespace

void UringBatch::Take(IoRequest* request) {
  const IoCommand& command = request->command;
  requests_.push_back(request);
  pieces_.push_back({command.data, command.bytes});
  bytes_ += command.bytes;
}

bool UringBatch::MayTakeMore(std::uint64_t bytes_max) const {
  return requests_.size() < kPiecesMax && bytes_ + last().command.bytes <= bytes_max;
}

void UringBatch::Deliver(std::int64_t result, TryAloneFn try_alone) {
  if (requests_.size() == 1) {
    requests_.front()->Complete(result);
  } else {
    for (IoRequest* request : requests_) {
      const auto bytes = static_cast<std::int64_t>(request->command.bytes);
      const std::int64_t moved = std::clamp<std::int64_t>(result, 0, bytes);
      result -= moved;
      moved > 0 ? request->Complete(moved) : try_alone(request);
    }
  }
  requests_.clear();
  pieces_.clear();
  bytes_ = 0;
}

}  // namespace sluice::io
