#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "python/binding/held_lease.h"
#include "python/binding/session.h"
#include "sluice/op.h"

namespace sluice::python {

/// One access as Python gives it: tensor, first byte, bytes, mode ("r", "rw", "w"), tier (none: the
/// fastest).
using Request = std::tuple<std::shared_ptr<TensorState>,
                           std::uint64_t,
                           std::uint64_t,
                           std::string,
                           std::optional<std::string>>;

/// The library's access. Raises InvalidArgument for a mode or tier that there is not, and NotFound
/// for a freed tensor. REQUIRES: the GIL.
Access AccessOf(const Request& request);

/// An op of a Python program, which ends by End or destruction. Threads: as Op.
class PythonOp {
 public:
  /// `lane`: none: the lane of the thread. `nested`: OpOptions::nested, for ops whose leases the
  /// thread itself ends. REQUIRES: the GIL.
  PythonOp(std::shared_ptr<Session> session,
           std::string name,
           std::optional<std::string> lane,
           bool nested);
  ~PythonOp();
  PythonOp(const PythonOp&) = delete;
  PythonOp& operator=(const PythonOp&) = delete;

  /// Waits for all leases at once. `before`: leases that are given back first, whatever comes.
  /// Raises as Ticket::Take, DeadlineExceeded after `timeout` seconds, Aborted if the thread would
  /// wait for its own lease, and what signal handlers raise. REQUIRES: the GIL.
  std::vector<std::shared_ptr<HeldLease>> Acquire(
      const std::vector<Request>& requests,
      std::optional<double> timeout,
      const std::vector<std::shared_ptr<HeldLease>>& before);
  /// Waits for one lease of frames. Errors: as Ticket::Take. Raises as Acquire. REQUIRES: the GIL.
  absl::StatusOr<Lease> AcquireFrames(const TensorState& tensor, const Access& access);
  void End();

 private:
  void RefuseOwnDeadlock(const std::vector<Request>& requests,
                         const std::vector<Access>& accesses) const;

  const std::shared_ptr<Session> session_;
  const std::string name_;
  /// Thread of the lane that End gives back.
  std::optional<std::thread::id> lane_thread_;
  Op op_;
};

}  // namespace sluice::python
