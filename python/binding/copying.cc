#include "python/binding/copying.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "python/binding/background/buffer.h"
#include "python/binding/python_op.h"
#include "python/binding/status.h"
#include "python/binding/waiting.h"

namespace sluice::python {
namespace {

namespace nb = nanobind;

/// Most bytes of one piece, where a page is no larger.
constexpr std::uint64_t kPieceBytes = std::uint64_t{16} << 20;

/// Copies the frames of a lease and the front of `bytes`, one into the other.
void CopyFrames(const Lease& lease, std::span<std::byte> bytes, CopyDirection direction) {
  WithoutGil([&] {
    for (const std::span<std::byte> frame : lease.Spans()) {
      std::byte* const to = direction == CopyDirection::kIn ? frame.data() : bytes.data();
      const std::byte* const from = direction == CopyDirection::kIn ? bytes.data() : frame.data();
      std::memcpy(to, from, frame.size());
      bytes = bytes.subspan(frame.size());
    }
  });
}

/// One copy of `bytes` into a tensor, or out of it.
class Copy {
 public:
  Copy(const TensorState& tensor,
       std::span<std::byte> bytes,
       std::uint64_t offset,
       CopyDirection direction)
      : tensor_(tensor),
        runtime_(tensor.session().runtime()),
        bytes_(bytes),
        begin_(offset),
        end_(offset + bytes.size()),
        direction_(direction),
        op_(tensor.shared_session(),
            direction == CopyDirection::kIn ? "write" : "read",
            std::nullopt,
            true),
        page_bytes_(runtime_->PageBytes().count()) {
    access_.tensor = tensor.id();
    access_.mode = direction == CopyDirection::kIn ? AccessMode::kOverwrite : AccessMode::kRead;
    access_.tier = tensor.lowest() == TierKind::kHbm ? kHbm0 : kDram0;
    access_.contiguous = false;
    piece_bytes_ = FirstPiece();
  }

  void Run() {
    for (std::uint64_t at = begin_; at < end_; at += access_.range.bytes) {
      const Lease lease = AcquireAt(at);
      PrefetchAt(at + access_.range.bytes);
      CopyFrames(lease, bytes_.subspan(at - begin_), direction_);
    }
  }

 private:
  /// Pages of 16 MiB, but no more than an eighth of the tier.
  std::uint64_t FirstPiece() const {
    const Stats stats = WithoutGil([&] { return runtime_->GetStats(); });
    const auto tier = stats.tiers.find(std::string(ToString(access_.tier->kind)));
    const std::uint64_t budget = tier == stats.tiers.end() ? 0 : tier->second.budget_bytes;
    return std::max(page_bytes_, std::min(kPieceBytes, budget / 8) / page_bytes_ * page_bytes_);
  }

  /// The piece from `at` on; it ends at a multiple of the pieces' size.
  ByteRange PieceAt(std::uint64_t at) const {
    return {at, std::min(piece_bytes_ - at % piece_bytes_, end_ - at)};
  }

  /// Leases, reservations and tensors that stay in the tier may leave less than an eighth of it.
  Lease AcquireAt(std::uint64_t at) {
    while (true) {
      access_.range = PieceAt(at);
      absl::StatusOr<Lease> lease = op_.AcquireFrames(tensor_, access_);
      if (lease.ok()) return *std::move(lease);
      if (!absl::IsResourceExhausted(lease.status()) || piece_bytes_ == page_bytes_) {
        Raise(lease.status());
      }
      piece_bytes_ = std::max(page_bytes_, piece_bytes_ / 2 / page_bytes_ * page_bytes_);
    }
  }

  void PrefetchAt(std::uint64_t at) {
    if (direction_ == CopyDirection::kIn || at >= end_) return;
    Access access = access_;
    access.range = PieceAt(at);
    RaiseIfError(WithoutGil([&] { return runtime_->Prefetch({&access, 1}); }));
  }

  const TensorState& tensor_;
  const std::shared_ptr<Runtime> runtime_;
  const std::span<std::byte> bytes_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const CopyDirection direction_;
  PythonOp op_;
  Access access_;
  const std::uint64_t page_bytes_;
  std::uint64_t piece_bytes_ = 0;
};

/// A write makes what the tensor shows undefined before it copies, as Runtime::Write says.
void RefuseOwnBytes(const TensorState& tensor, std::span<const std::byte> bytes) {
  if (!tensor.readable()) return;
  const auto own = ValueOrRaise(tensor.session().runtime()->AddressOf(tensor.id()));
  const std::less_equal<> ends_before;
  if (ends_before(own.data() + own.size(), bytes.data()) ||
      ends_before(bytes.data() + bytes.size(), own.data())) {
    return;
  }
  Raise(absl::InvalidArgumentError("tensor '" + tensor.name() +
                                   "' cannot be written from its own memory, which a write makes "
                                   "undefined first: pass a copy of the array"));
}

void CopyBuffer(const std::shared_ptr<TensorState>& tensor,
                const nb::object& object,
                std::uint64_t offset,
                CopyDirection direction) {
  tensor->RefuseFreed();
  const Buffer buffer(object, direction);
  const std::uint64_t size = buffer.bytes().size();
  if (offset > tensor->bytes() || size > tensor->bytes() - offset) {
    Raise(absl::InvalidArgumentError(
        "tensor '" + tensor->name() + "' has " + std::to_string(tensor->bytes()) + " bytes, not " +
        std::to_string(size) + " from byte " + std::to_string(offset) + " on"));
  }
  if (direction == CopyDirection::kIn) RefuseOwnBytes(*tensor, buffer.bytes());
  Copy(*tensor, buffer.bytes(), offset, direction).Run();
}

}  // namespace

void CopyIn(const std::shared_ptr<TensorState>& tensor,
            const nb::object& source,
            std::uint64_t offset) {
  CopyBuffer(tensor, source, offset, CopyDirection::kIn);
}

void CopyOut(const std::shared_ptr<TensorState>& tensor,
             const nb::object& target,
             std::uint64_t offset) {
  CopyBuffer(tensor, target, offset, CopyDirection::kOut);
}

}  // namespace sluice::python
