#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/engine/io_engine.h"

namespace sluice::io {

/// Text of base::DescribeErrno; for ENOMEM with the limit that the memory of a ring counts against.
std::string DescribeLockingError(int error_number);

/// The memory that a ring knows by number: the kernel has pinned its pages once, and moves bytes
/// there without looking them up again. The ring knows pages, not addresses. Memory that is
/// unmapped, punched out or mapped anew must be removed first, or bytes go to the old pages. Pinned
/// bytes count against RLIMIT_MEMLOCK without CAP_IPC_LOCK. Threads: that of the ring. Source:
/// io_uring_register(2).
class RingBuffers {
 public:
  /// Bytes pinned at a time, by default; no page of a store is larger.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;
  /// Limit of the kernel: IORING_MAX_REG_BUFFERS.
  static constexpr unsigned kPiecesMax = 1 << 14;

  /// Makes room for pieces, before the ring is enabled. False: the kernel (before 5.19) cannot.
  static bool Reserve(io_uring* ring);

  /// `ring`: one for which Reserve succeeded. `bytes_max`: bytes of pieces at a time.
  explicit RingBuffers(io_uring* ring,
                       std::uint64_t piece_bytes = kPieceBytes,
                       std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max())
      : ring_(ring), piece_bytes_(piece_bytes), bytes_max_(bytes_max) {}

  /// Registers piece by piece, up to the first that the kernel refuses. The last piece is as large
  /// as `bytes_max` leaves room for.
  RegisteredMemory Add(std::span<std::byte> memory);
  /// Removes the pieces that begin in `memory`. Requests in flight keep theirs until they are done.
  void Remove(std::span<std::byte> memory);
  /// Number of the registered buffer that holds all of these bytes; none if there is none.
  std::optional<unsigned> Find(const std::byte* data, std::size_t bytes) const;

 private:
  struct Piece {
    std::byte* begin;
    std::size_t bytes;
    unsigned number;
  };

  int Update(unsigned number, std::span<std::byte> memory);
  unsigned TakeNumber();
  std::uint64_t BytesLeft() const;

  io_uring* const ring_;
  const std::uint64_t piece_bytes_;
  const std::uint64_t bytes_max_;
  std::vector<Piece> pieces_;  ///< pieces by address
  std::vector<unsigned> free_;
  unsigned used_ = 0;  ///< numbers ever given
};

}  // namespace sluice::io
