#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/lease.h"

namespace sluice::optim {

/// Elements that lie in memory in several pieces, as the frames of a lease do. No piece cuts an
/// element. Threads: any. Lifetime: the memory outlives the object.
class Pieces {
 public:
  Pieces() = default;
  Pieces(std::vector<std::span<std::byte>> pieces, std::size_t element_bytes);
  Pieces(const Lease& lease, std::size_t element_bytes) : Pieces(lease.Spans(), element_bytes) {}
  Pieces(std::span<std::byte> bytes, std::size_t element_bytes);

  bool empty() const { return pieces_.empty(); }
  std::size_t element_bytes() const { return element_bytes_; }
  /// Number of elements that lie together from `element` on. REQUIRES: `element` exists.
  std::size_t Together(std::size_t element) const;
  std::byte* At(std::size_t element) const;
  void CopyOut(std::size_t element, std::size_t count, std::byte* to) const;
  void CopyIn(std::size_t element, std::size_t count, const std::byte* from) const;

 private:
  struct PieceOffset {
    std::size_t piece = 0;
    std::size_t offset = 0;
  };
  PieceOffset Find(std::size_t element) const;

  std::vector<std::span<std::byte>> pieces_;
  std::size_t element_bytes_ = 1;
};

}  // namespace sluice::optim
