#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "base/strings.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// A Status that threads may share.
struct Failure {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;

  static Failure From(const absl::Status& status) {
    return {status.code(), std::string(base::ToStd(status.message()))};
  }
  absl::Status ToStatus() const { return {code, base::ToAbsl(message)}; }
};

/// Whether this is the owner's process. Errors: FailedPrecondition in a child of fork.
absl::Status CheckProcess(const base::OwnerProcess& owner);

}  // namespace sluice::optim

namespace sluice::internal {

/// A step that a StepHandle waits for. Threads: any. In a child of fork the step is over and has
/// failed. The object is not destroyed there, as threads that the child lacks may wait for it.
class StepState {
 public:
  static std::shared_ptr<StepState> Create(std::size_t groups);

  /// Notes that `parts` more parts of the group are to come.
  void Expect(std::uint32_t group, std::uint64_t parts);
  /// Notes that one of the expected parts is done, or has failed.
  void PartDone(std::uint32_t group, const std::optional<optim::Failure>& failure);
  /// Ends the step. Its first failure counts more than `result`.
  void Finish(const OptimizerStep& result);
  void Fail(const absl::Status& status);

  bool over() const;
  absl::StatusOr<OptimizerStep> Wait(Ticket::Deadline deadline);
  absl::Status WaitFor(GroupId group, Ticket::Deadline deadline);
  bool Ready(GroupId group) const;
  bool failed() const;

 private:
  explicit StepState(std::size_t groups) : groups_(groups) {}

  struct Group {
    std::uint64_t left = 0;
    bool expected = false;
    std::optional<optim::Failure> failure;
  };
  bool ReadyLocked(GroupId group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::OwnerProcess owner_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Group> groups_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  OptimizerStep result_ ABSL_GUARDED_BY(mutex_);
  std::optional<optim::Failure> failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::internal
