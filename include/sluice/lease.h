#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sluice/tensor.h"
#include "sluice/tier.h"

/// The bytes of a tensor, pinned in a tier while the lease lives:
///
///   auto lease = op.Acquire({.tensor = weights, .mode = sluice::AccessMode::kReadWrite});
///   if (!lease.ok()) return lease.status();
///   for (float& value : lease->As<float>()) value *= 2;         // one address range
///   for (std::span<std::byte> frame : lease->Spans()) Use(frame);  // or frame by frame
///   lease->Release();                                           // or at the end of its scope

namespace sluice {

namespace internal {
class LeaseState;
}

/// An RAII pin of a range of a tensor in one tier. The bytes stay in place while it lives.
/// Threads: a lease may be moved to and released from any thread; release never blocks.
/// Lifetime: a lease may outlive its op and its Runtime, and exist in a child of fork. The lease
/// still reports valid() after the Runtime's destructor, but its bytes must not be touched; in a
/// child they are not mapped.
///
/// Writes through a kRead lease are an error of the program that nothing detects. The page may be
/// dropped as clean, and the written bytes with it.
class Lease {
 public:
  Lease();
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;
  /// Releases the pin.
  ~Lease();

  /// Whether the lease pins pages: not if it is default-constructed, moved-from or released.
  bool valid() const { return state_ != nullptr; }
  /// Tensor, tier and mode of the access. A lease without valid() has TensorId 0, kDram0 and kRead.
  TensorId tensor() const;
  TierId tier() const;
  AccessMode mode() const;

  /// The range as one piece at the tensor's address, which no eviction changes. The address, as
  /// those of Spans, is the GPU's in the hbm of a GPU. REQUIRES: valid(), and Access::contiguous.
  std::span<std::byte> Contiguous() const;
  /// The pinned frames in order, cut to the range. REQUIRES: valid().
  const std::vector<std::span<std::byte>>& Spans() const;

  /// Whether the host can touch the lease: not in the hbm of a GPU, which only work of the GPU
  /// touches. REQUIRES: valid().
  bool host_accessible() const;

  /// Whether a GPU copies from and to the lease at the speed of its link, beside the thread that
  /// asks for the copy.
  /// - An access to dram without Access::contiguous is pinned once the background registration has
  ///   reached its pages. The registration begins at Create (0.03 s/GiB: docs/results/h200.md).
  /// - An access with Access::contiguous is not. A tensor's own address in dram is mapped anew as
  ///   pages come and go, and no registration survives that. The frames of Spans are pinned even
  ///   so.
  /// REQUIRES: valid().
  bool pinned() const;

  /// Index into Runtime::DramNodes for each of Spans; 0 in hbm. REQUIRES: valid().
  const std::vector<std::uint32_t>& Nodes() const;

  /// The contiguous range as elements. Bytes beyond the last whole element are cut off.
  /// REQUIRES: valid(), Access::contiguous, and memory that the host can touch (host_accessible).
  template <typename T>
  std::span<T> As() const {
    const std::span<std::byte> bytes = HostBytes();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Releases the pin before the end of scope.
  void Release();

 private:
  friend class Op;
  friend class Ticket;
  friend class StreamRef;
  explicit Lease(std::shared_ptr<internal::LeaseState> state);
  std::span<std::byte> HostBytes() const;
  std::shared_ptr<internal::LeaseState> state_;
};

}  // namespace sluice
