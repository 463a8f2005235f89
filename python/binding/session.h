#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "python/binding/reports.h"
#include "sluice/runtime.h"

namespace sluice::python {

class HeldLease;
class PythonOptimizer;
class TensorState;

/// Part of a tensor that a thread holds or asks for, and its access.
struct TensorUse {
  const TensorState* tensor = nullptr;
  ByteRange range;
  AccessMode mode = AccessMode::kRead;
};

/// One Runtime of a Python program. Tensors, leases and views share its ownership, so that memory
/// lent to NumPy or PyTorch outlives the Runtime object of the program.
/// Threads: any. No member waits for the GIL, which is why sessions can give their own shared_ptr.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// Creates a Runtime from a TOML file (none: the defaults), and assignments "key=value" that win
  /// over it. `share`: index and count of RuntimeOptions::share. Raises the errors of Config,
  /// ReadRuntimeOptions and Runtime::Create. REQUIRES: the GIL.
  static std::shared_ptr<Session> Create(const std::optional<std::string>& path,
                                         const std::vector<std::string>& assignments,
                                         std::pair<std::uint32_t, std::uint32_t> share);
  ~Session();

  /// Raises FailedPrecondition once the session is closed, and in a child of fork. REQUIRES: the
  /// GIL.
  std::shared_ptr<Runtime> runtime() const;
  /// Whether Close was called, or this is a child of fork.
  bool closed() const;
  bool in_child() const;
  /// Raises FailedPrecondition in a child of fork. REQUIRES: the GIL.
  void RefuseChild() const;
  /// Reports of the session. REQUIRES: no child of fork, where a thread of the parent may have held
  /// its lock.
  Reports& reports() { return *reports_; }

  /// Directory of the spill file; empty: the runtime has none.
  const std::string& spill_directory() const { return spill_directory_; }

  void Add(const std::shared_ptr<TensorState>& tensor);
  /// A number that no other optimizer of the session has, for as long as it is kept. Optimizers
  /// work at the same time, so each has a lane of its own.
  std::shared_ptr<const int> TakeOptimizerNumber();
  /// Close ends the optimizer first.
  void Add(const std::shared_ptr<PythonOptimizer>& optimizer);
  void Add(const HeldLease* lease, TensorUse use);
  void Remove(const HeldLease* lease);

  /// Raises Aborted if this thread holds a lease for which a request for `uses` would wait: it
  /// would wait for ever. REQUIRES: the GIL.
  void RefuseOwnDeadlock(const std::vector<TensorUse>& uses) const;

  /// A lane for an op of this thread, its own while it has ops. EndLane gives it back.
  std::string BeginLane(std::thread::id thread);
  void EndLane(std::thread::id thread);

  /// Frees a tensor, if the session is open still.
  void Free(TensorId tensor);
  /// Uses of the session's memory: a phrase per tensor with leases, arrays or torch storages.
  std::vector<std::string> InUse() const;
  /// Whether another thread holds a lease.
  bool LeasedElsewhere() const;
  /// Ends the Runtime: waits for transfers in flight and frees everything. Nothing in a child.
  void Close();

 private:
  struct Held {
    TensorUse use;
    std::thread::id thread;
  };
  struct Lane {
    int number = 0;
    int ops = 0;
  };
  Session(std::shared_ptr<Runtime> runtime,
          std::shared_ptr<Reports> reports,
          std::string spill_directory);
  void CloseOptimizers();
  std::shared_ptr<Runtime> RuntimeOrNull() const;
  int LeasesOf(const TensorState& tensor) const;

  const pid_t process_;
  const std::uint64_t page_bytes_;
  const std::shared_ptr<Reports> reports_;
  const std::string spill_directory_;
  /// Guards runtime_. Threads without the GIL take it, so a child of fork never does.
  mutable std::mutex runtime_mutex_;
  std::shared_ptr<Runtime> runtime_;
  /// Guards the members below. Threads take it with the GIL, so that none holds it during a fork of
  /// Python.
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<TensorState>> tensors_;
  /// Size of tensors_ at which the entries of dropped tensors are erased.
  std::size_t tensors_to_look_at_ = 64;
  std::vector<std::weak_ptr<PythonOptimizer>> optimizers_;
  std::set<int> optimizer_numbers_;  ///< numbers that optimizers have
  std::map<const HeldLease*, Held> held_;
  std::map<std::thread::id, Lane> lanes_;
};

/// A session to be closed when the interpreter ends; it does not keep the session alive.
class SessionAtExit {
 public:
  explicit SessionAtExit(const std::shared_ptr<Session>& session) : session_(session) {}
  bool alive() const { return !session_.expired(); }
  /// Does nothing while another thread holds a lease or, with `daemons`, while there are arrays on
  /// the session's memory: a daemon thread may be using the bytes, and the end of the process frees
  /// them anyway. `daemons`: other threads run still.
  void Close(bool daemons);

 private:
  std::weak_ptr<Session> session_;
};

}  // namespace sluice::python
