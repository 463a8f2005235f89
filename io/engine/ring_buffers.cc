#include "io/engine/ring_buffers.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::io {

std::string DescribeLockingError(int error_number) {
  std::string why = base::DescribeErrno(error_number);
  if (error_number != ENOMEM) return why;
  return why + ": the limit of locked memory (ulimit -l) counts it without CAP_IPC_LOCK";
}

bool RingBuffers::Reserve(io_uring* ring) {
  return io_uring_register_buffers_sparse(ring, kPiecesMax) == 0;
}

RegisteredMemory RingBuffers::Add(std::span<std::byte> memory) {
  RegisteredMemory registered;
  while (registered.bytes < memory.size()) {
    if (free_.empty() && used_ == kPiecesMax) {
      registered.reason = fmt::format("the kernel takes {} pieces", kPiecesMax);
      break;
    }
    const std::uint64_t bytes =
        std::min<std::uint64_t>({piece_bytes_, memory.size() - registered.bytes, BytesLeft()});
    if (bytes == 0) {
      registered.reason = fmt::format(
          "this process has {} bytes of the limit of locked memory (ulimit -l)", bytes_max_);
      break;
    }
    const std::span<std::byte> piece = memory.subspan(registered.bytes, bytes);
    const unsigned number = TakeNumber();
    const int error = Update(number, piece);
    if (error != 0) {
      free_.push_back(number);
      registered.reason = DescribeLockingError(error);
      break;
    }
    const auto after = [](const std::byte* begin, const Piece& other) {
      return begin < other.begin;
    };
    pieces_.insert(std::upper_bound(pieces_.begin(), pieces_.end(), piece.data(), after),
                   {piece.data(), bytes, number});
    registered.bytes += bytes;
  }
  return registered;
}

void RingBuffers::Remove(std::span<std::byte> memory) {
  std::erase_if(pieces_, [&](const Piece& piece) {
    if (piece.begin < memory.data() || piece.begin >= memory.data() + memory.size()) return false;
    // A number that cannot be taken back is not given to other memory.
    if (Update(piece.number, {}) == 0) free_.push_back(piece.number);
    return true;
  });
}

std::optional<unsigned> RingBuffers::Find(const std::byte* data, std::size_t bytes) const {
  const auto after = [](const std::byte* begin, const Piece& piece) { return begin < piece.begin; };
  const auto next = std::upper_bound(pieces_.begin(), pieces_.end(), data, after);
  if (next == pieces_.begin()) return std::nullopt;
  const Piece& piece = *std::prev(next);
  const auto offset = static_cast<std::size_t>(data - piece.begin);
  if (offset >= piece.bytes || bytes > piece.bytes - offset) return std::nullopt;
  return piece.number;
}

/// 0 or an errno. No memory: the number stands for none.
int RingBuffers::Update(unsigned number, std::span<std::byte> memory) {
  const iovec vector{memory.data(), memory.size()};
  const int updated = io_uring_register_buffers_update_tag(ring_, number, &vector, nullptr, 1);
  if (updated == 1) return 0;
  return updated < 0 ? -updated : EIO;
}

/// Bytes that the limit leaves, in whole pages of memory: the kernel pins no less.
std::uint64_t RingBuffers::BytesLeft() const {
  std::uint64_t registered_bytes = 0;
  for (const Piece& piece : pieces_) registered_bytes += piece.bytes;
  const std::uint64_t left = bytes_max_ - std::min(bytes_max_, registered_bytes);
  return left - left % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

unsigned RingBuffers::TakeNumber() {
  if (free_.empty()) return used_++;
  const unsigned number = free_.back();
  free_.pop_back();
  return number;
}

}  // namespace sluice::io
