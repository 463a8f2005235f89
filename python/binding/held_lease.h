#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "python/binding/session.h"
#include "python/binding/tensor_state.h"
#include "sluice/lease.h"

namespace sluice::python {

/// The bytes of a lease, lent to NumPy by the buffer protocol. It counts as an array of the tensor,
/// and keeps the tensor and its session, while it lives.
class LentMemory {
 public:
  LentMemory(std::shared_ptr<TensorState> tensor,
             std::byte* bytes,
             std::uint64_t size,
             bool writable);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /// Fills `view`, as PyObject_GetBuffer says.
  int GetBuffer(PyObject* self, Py_buffer* view, int flags) const;

 private:
  const std::shared_ptr<TensorState> tensor_;
  std::byte* const bytes_;
  const std::uint64_t size_;
  const bool writable_;
};

/// Type of an element in DLPack.
struct DlpackType {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
};

/// A lease that Python holds. Threads: any.
class HeldLease {
 public:
  HeldLease(std::shared_ptr<TensorState> tensor, Lease lease, ByteRange range);
  ~HeldLease();
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;

  /// Raises FailedPrecondition unless the bytes are there: once the lease has ended, once the
  /// session is closed, and in a child of fork. REQUIRES: the GIL.
  void Check() const;
  void Release();
  /// Takes the lease from its holder, who hands it over for others. It has ended then.
  Lease Take();

  bool writable() const { return mode_ != AccessMode::kRead; }
  std::string tier() const { return ToString(tier_); }
  /// First byte of the lease, and of the whole tensor, in the lease's tier.
  std::byte* bytes() const { return bytes_; }
  std::byte* tensor_bytes() const { return bytes_ - range_.offset; }
  std::uint64_t size() const { return range_.bytes; }

  /// Raises as Check. REQUIRES: the GIL.
  std::unique_ptr<LentMemory> Lend() const;
  /// A DLPack capsule of the whole tensor. Its storage counts for the tensor, and keeps it and its
  /// session, until the deleter runs. Raises as Check. REQUIRES: the GIL.
  nanobind::capsule LendTensor(const std::vector<std::int64_t>& shape, DlpackType type) const;

 private:
  const std::shared_ptr<TensorState> tensor_;
  const ByteRange range_;
  const AccessMode mode_;
  const TierId tier_;
  std::byte* const bytes_;
  mutable std::mutex mutex_;
  Lease lease_;
};

}  // namespace sluice::python
