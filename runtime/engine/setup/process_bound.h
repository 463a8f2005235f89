#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/owner_process.h"

/// Note [Fork]: what a child of fork may do with a Runtime of its parent.
///
/// The child has a copy of every object, but no thread of the engine and no memory of the arenas.
/// Perhaps it has a lock that a thread of the parent held at the fork, and that nobody will ever
/// give back here. So in another process than its own
///  - every method that a user can reach returns before it takes a lock (CheckProcess), and
///  - nothing is ever destroyed: destructors would wait for threads that are not there. The one
///    place for that is OwnerDelete: MakeOwned makes every object that a user's handle leads to.
///    Objects that are neither reached nor destroyed (the store, its engines, worker pools, timers)
///    need no rule of their own.

namespace sluice::engine {

/// Errors: FailedPrecondition when this is not the process of `owner`.
inline absl::Status CheckProcess(const base::OwnerProcess& owner) {
  if (owner.IsThis()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the runtime belongs to the process that made it, and this is a child of that process: a "
      "child makes a runtime of its own");
}

/// Deletes for a shared_ptr, but only in the process in which it was made; see Note [Fork].
class OwnerDelete {
 public:
  template <typename T>
  void operator()(T* object) const {
    if (owner_.IsThis()) delete object;
  }

 private:
  base::OwnerProcess owner_;
};

/// Does std::make_shared with OwnerDelete.
template <typename T, typename... Arguments>
std::shared_ptr<T> MakeOwned(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), OwnerDelete());
}

}  // namespace sluice::engine
