#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/binding/session.h"
#include "sluice/tensor.h"

namespace sluice::python {

/// A tensor of a session. The Tensor object of Python, leases and views share its ownership; the
/// last one frees the tensor. nanobind shares an object that can give its own shared_ptr without
/// the GIL: so lent memory is given back on any thread. Threads: any.
class TensorState : public std::enable_shared_from_this<TensorState> {
 public:
  /// Raises the errors of Runtime::CreateTensor. REQUIRES: the GIL.
  static std::shared_ptr<TensorState> Create(const std::shared_ptr<Session>& session,
                                             const TensorSpec& spec);
  TensorState(std::shared_ptr<Session> session, TensorId id, const TensorSpec& spec);
  ~TensorState();
  TensorState(const TensorState&) = delete;
  TensorState& operator=(const TensorState&) = delete;

  Session& session() const { return *session_; }
  const std::shared_ptr<Session>& shared_session() const { return session_; }
  TensorId id() const { return id_; }
  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }
  TierKind lowest() const { return lowest_; }
  bool readable() const { return readable_; }

  /// Frees the tensor now. Raises FailedPrecondition if arrays or torch tensors use its memory, or
  /// if it is freed already. REQUIRES: the GIL.
  void Free();
  /// Raises NotFound once the tensor is freed. REQUIRES: the GIL.
  void RefuseFreed() const;

  /// Text like "1 lease, 2 NumPy arrays", for the leases given and the arrays and storages that
  /// live; "" if there are none.
  std::string Users(int leases) const;

  /// Live arrays and torch storages on the tensor's memory.
  std::atomic<int> arrays{0};
  std::atomic<int> storages{0};

 private:
  const std::shared_ptr<Session> session_;
  const TensorId id_;
  const std::string name_;
  const std::uint64_t bytes_;
  const TierKind lowest_;
  const bool readable_;  ///< whether views are readable outside a lease
  std::atomic<bool> freed_{false};
};

}  // namespace sluice::python
